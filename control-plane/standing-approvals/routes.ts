import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { canonicalName } from '../../shared/wire/api/email.ts';
import { PageAnswer, placePage, renderPage } from '../../shared/wire/api/paging.ts';
import {
  parseStandingApproval,
  renderStandingApproval,
  StandingApprovalAnswer,
  StandingApprovalCreation,
  StandingApprovalListQuery,
} from '../../shared/wire/api/standing-approval.ts';
import { listStandingApprovals } from '../approvals/standing-approval-store.ts';
import type { AppendingDeps } from '../attestations/deps.ts';
import { creator } from '../creation/idempotency.ts';
import { callerOf } from '../http/caller.ts';
import { exampleIds } from '../http/example-ids.ts';
import { operationsOf } from '../http/operation.ts';
import { IdParams, pathId } from '../http/path-id.ts';
import { createStandingApproval } from './create-standing-approval.ts';
import { endStandingApproval, readStandingApproval } from './end-standing-approval.ts';

const api = operationsOf('Approvals', {
  createStandingApproval: {
    scope: 'approvals:resolve',
    creates: true,
    summary: 'Approve requests ahead',
    description:
      'Requests of this passport for this permission at this gate, of at most `each_usd`, are permitted without asking until `total_usd` is ' +
      'spent or `expires_at` comes. Everything but the approval is still checked. It ends with the policy of the gate: a change of trust level, ' +
      'constraints, routes or catalog ends it.',
    errors: ['gate_not_found', 'passport_not_found', 'not_an_approver'],
    examples: {
      orders: {
        value: {
          gate_id: exampleIds.askingGateId,
          passport_id: exampleIds.passportId,
          permission_key: 'orders:create',
          each_usd: 300,
          total_usd: 2000,
          expires_at: exampleIds.endsAt,
          note: 'Chairs for the new office',
        },
      },
    },
  },
  listStandingApprovals: {
    scope: 'approvals:read',
    summary: 'List standing approvals at your gates, newest first',
    description: 'With `status` those that have this status now.',
  },
  getStandingApproval: {
    scope: 'approvals:read',
    summary: 'Get a standing approval, with what is used of it',
    errors: ['approval_not_found'],
  },
  endStandingApproval: {
    scope: 'approvals:resolve',
    summary: 'End a standing approval at once',
    description:
      'Sidecars permit nothing by it any more, as soon as they learn of a revocation. What was permitted stays permitted. One that has ended ' +
      'already is answered as it is.',
    errors: ['approval_not_found'],
  },
});
const idOf = (text: string) => pathId('sappr', text, 'approval_not_found');

/** Requests approved ahead at the caller's gates (contract §8). */
export function standingApprovalRoutes(deps: AppendingDeps): FastifyPluginAsyncTypebox {
  const answerCreated = creator(deps);
  const one = { params: IdParams, response: { 200: StandingApprovalAnswer } };
  return async (app) => {
    app.post(
      '/approvals/standing',
      {
        config: api.createStandingApproval,
        schema: { body: StandingApprovalCreation, response: { 201: StandingApprovalAnswer } },
      },
      async (request, reply) => {
        const caller = callerOf(request);
        const wanted = parseStandingApproval(request.body, deps.clock.now());
        return answerCreated(request, reply, {
          create: (tx, change) => createStandingApproval(tx, change, deps, { caller, wanted }),
          render: renderStandingApproval,
          audit: (made) => ({
            operation: 'createStandingApproval',
            target: made.standingApprovalId,
            before: null,
            after: renderStandingApproval(made),
          }),
        });
      },
    );

    app.get(
      '/approvals/standing',
      {
        config: api.listStandingApprovals,
        schema: {
          querystring: StandingApprovalListQuery,
          response: { 200: PageAnswer(StandingApprovalAnswer) },
        },
      },
      async (request) => {
        const caller = callerOf(request);
        const {
          status = null,
          gate_id: gateId = null,
          passport_id: passportId = null,
          owner = null,
          ...paging
        } = request.query;
        const passportsOf = canonicalName(owner);
        const page = placePage(paging, caller, 'standing approvals', [
          status,
          gateId,
          passportId,
          passportsOf,
        ]);
        const asked = { status, gateId, passportId, passportsOf, page, nowMs: deps.clock.now() };
        return renderPage(await listStandingApprovals(deps.sql, caller, asked), page, renderStandingApproval);
      },
    );

    app.get('/approvals/standing/:id', { config: api.getStandingApproval, schema: one }, async (request) =>
      renderStandingApproval(await readStandingApproval(deps, callerOf(request), idOf(request.params.id))),
    );

    app.delete('/approvals/standing/:id', { config: api.endStandingApproval, schema: one }, async (request) =>
      renderStandingApproval(await endStandingApproval(deps, callerOf(request), idOf(request.params.id))),
    );
  };
}
