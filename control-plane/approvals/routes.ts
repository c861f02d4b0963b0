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
} from '../../shared/wire/approval.ts';
import { PageAnswer } from '../../shared/wire/paging.ts';
import type { AppendingDeps } from '../attestations/deps.ts';
import { callerOf } from '../http/caller.ts';
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

const read = { scope: listApprovalsUseCase.scope } as const;
const resolve = { scope: resolveApprovalUseCase.scope } as const;
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
        config: read,
        schema: { querystring: ApprovalListQuery, response: { 200: PageAnswer(ApprovalAnswer) } },
      },
      async (request) => listApprovalsUseCase.run(deps, callerOf(request), request.query),
    );

    app.get(
      '/approvals/:id',
      {
        config: read,
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

    app.post('/approvals/:id/approve', { config: resolve, schema: resolution }, async (request) =>
      answerResolved(request, request.params.id, 'approved'),
    );

    app.post(
      '/approvals/:id/undo',
      { config: resolve, schema: { params: IdParams, response: { 200: ApprovalAnswer } } },
      async (request) => undoApprovalUseCase.run(deps, callerOf(request), request.params.id),
    );

    app.post('/approvals/:id/deny', { config: resolve, schema: resolution }, async (request) =>
      answerResolved(request, request.params.id, 'denied'),
    );
  };
}
