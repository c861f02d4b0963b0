import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { FastifyRequest } from 'fastify';
import type { Static } from 'typebox';
import {
  ApprovalAnswer,
  ApprovalDetail,
  ApprovalListQuery,
  ApprovalQuery,
  ApprovalResolution,
  renderApprovalDetail,
} from '../../shared/wire/api/approval.ts';
import { PageAnswer } from '../../shared/wire/api/paging.ts';
import type { AppendingDeps } from '../attestations/deps.ts';
import { callerOf } from '../http/caller.ts';
import { operationsOf } from '../http/operation.ts';
import { IdParams } from '../http/path-id.ts';
import { readAnswerStanding } from './answer-standing.ts';
import {
  approvalIdOf,
  listApprovalsUseCase,
  resolveApprovalUseCase,
  undoApprovalUseCase,
} from './approval-use-cases.ts';
import type { ResolutionInput } from './resolve-approval.ts';
import { ApprovalWaits } from './wait-for-approval.ts';

const errorsOfAnswers = [
  'approval_not_found',
  'approval_already_resolved',
  'approval_already_answered',
  'not_an_approver',
  'passkey_required',
  'passkey_refused',
] as const;

const api = operationsOf('Approvals', {
  listApprovals: {
    scope: listApprovalsUseCase.scope,
    summary: 'List approvals at your gates, newest first',
    description:
      'With `status` those that have this status now: an approval that nobody resolved in time is `expired`. With `waiting_for=me` ' +
      'those that wait for an answer of the caller.',
  },
  getApproval: {
    scope: listApprovalsUseCase.scope,
    summary: 'Get an approval',
    errors: ['approval_not_found'],
  },
  approveApproval: {
    scope: resolveApprovalUseCase.scope,
    summary: 'Approve a request',
    description:
      'The agent then sends the same request once more, with `approval_id`, before the new `expires_at`. Everything but the ' +
      'approval is checked again then. Where the gate wants several people, it stays pending until as many have approved.',
    errors: errorsOfAnswers,
    examples: { note: { value: { note: 'Ordered by Ms Okafor' } } },
  },
  undoApproval: {
    scope: resolveApprovalUseCase.scope,
    summary: 'Take an answer back',
    description:
      'For 5 s after the answer, by the key or person that gave it, unless the approval was used. It is pending again.',
    errors: ['approval_not_found', 'approval_already_resolved'],
  },
  denyApproval: {
    scope: resolveApprovalUseCase.scope,
    summary: 'Deny a request',
    description:
      'The money held for it is released at once. One denial ends it, however many people have to approve.',
    errors: errorsOfAnswers,
    examples: { note: { value: { note: 'Not before the next quarter' } } },
  },
});
const resolution = { params: IdParams, body: ApprovalResolution, response: { 200: ApprovalAnswer } };

type Answering = FastifyRequest & { readonly body: Static<typeof ApprovalResolution> };

/** Approvals at the caller's gates, pending and past (contract §8). */
export function approvalRoutes(deps: AppendingDeps): FastifyPluginAsyncTypebox {
  const answerResolved = (request: Answering, id: string, status: ResolutionInput['status']) => {
    const { note = null, assertion = null } = request.body;
    return resolveApprovalUseCase.run(deps, callerOf(request), {
      id,
      resolution: { status, note, assertion },
    });
  };
  const waits = new ApprovalWaits();
  return async (app) => {
    app.get(
      '/approvals',
      {
        config: api.listApprovals,
        schema: { querystring: ApprovalListQuery, response: { 200: PageAnswer(ApprovalAnswer) } },
      },
      async (request) => listApprovalsUseCase.run(deps, callerOf(request), request.query),
    );

    app.get(
      '/approvals/:id',
      {
        config: api.getApproval,
        schema: { params: IdParams, querystring: ApprovalQuery, response: { 200: ApprovalDetail } },
      },
      async (request) => {
        const caller = callerOf(request);
        const approval = await waits.read(deps, caller, {
          approvalId: approvalIdOf(request.params.id),
          waitMs: request.query.wait_ms,
          hasGone: () => request.raw.socket.destroyed,
        });
        const standing = await readAnswerStanding(deps, caller, approval);
        return renderApprovalDetail(approval, standing, deps.baseUrl);
      },
    );

    app.post('/approvals/:id/approve', { config: api.approveApproval, schema: resolution }, async (request) =>
      answerResolved(request, request.params.id, 'approved'),
    );

    app.post(
      '/approvals/:id/undo',
      { config: api.undoApproval, schema: { params: IdParams, response: { 200: ApprovalAnswer } } },
      async (request) => undoApprovalUseCase.run(deps, callerOf(request), request.params.id),
    );

    app.post('/approvals/:id/deny', { config: api.denyApproval, schema: resolution }, async (request) =>
      answerResolved(request, request.params.id, 'denied'),
    );
  };
}
