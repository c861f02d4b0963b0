import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { PageAnswer, placePage, renderPage } from '../../shared/wire/paging.ts';
import {
  parseStandingApproval,
  renderStandingApproval,
  StandingApprovalAnswer,
  StandingApprovalCreation,
  StandingApprovalListQuery,
} from '../../shared/wire/standing-approval.ts';
import { listStandingApprovals } from '../approvals/standing-approval-store.ts';
import type { AppendingDeps } from '../attestations/deps.ts';
import { creator } from '../creation/idempotency.ts';
import { callerOf } from '../http/caller.ts';
import { IdParams, pathId } from '../http/path-id.ts';
import { createStandingApproval } from './create-standing-approval.ts';
import { endStandingApproval, readStandingApproval } from './end-standing-approval.ts';

const read = { scope: 'approvals:read' } as const;
const resolve = { scope: 'approvals:resolve' } as const;
const create = { ...resolve, creates: true } as const;
const idOf = (text: string) => pathId('sappr', text, 'approval_not_found');

/** Requests approved ahead at the caller's gates (contract §8). */
export function standingApprovalRoutes(deps: AppendingDeps): FastifyPluginAsyncTypebox {
  const answerCreated = creator(deps);
  const one = { params: IdParams, response: { 200: StandingApprovalAnswer } };
  return async (app) => {
    app.post(
      '/approvals/standing',
      {
        config: create,
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
        config: read,
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
          owner: passportsOf = null,
          ...paging
        } = request.query;
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

    app.get('/approvals/standing/:id', { config: read, schema: one }, async (request) =>
      renderStandingApproval(await readStandingApproval(deps, callerOf(request), idOf(request.params.id))),
    );

    app.delete('/approvals/standing/:id', { config: resolve, schema: one }, async (request) =>
      renderStandingApproval(await endStandingApproval(deps, callerOf(request), idOf(request.params.id))),
    );
  };
}
