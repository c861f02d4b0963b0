import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { FastifyRequest } from 'fastify';
import { ApiError } from '../../shared/errors/api-error.ts';
import {
  ApprovalAnswer,
  ApprovalListQuery,
  ApprovalResolution,
  renderApproval,
} from '../../shared/wire/approval.ts';
import { PageAnswer } from '../../shared/wire/paging.ts';
import type { AppendingDeps } from '../attestations/deps.ts';
import { callerOf } from '../http/caller.ts';
import { IdParams } from '../http/path-id.ts';
import { findApproval } from './approval-store.ts';
import { approvalIdOf, listApprovalsUseCase, resolveApprovalUseCase } from './approval-use-cases.ts';
import type { ResolutionInput } from './resolve-approval.ts';

const read = { scope: listApprovalsUseCase.scope } as const;
const resolve = { scope: resolveApprovalUseCase.scope } as const;
const resolution = { params: IdParams, body: ApprovalResolution, response: { 200: ApprovalAnswer } };

/** Approvals at the caller's gates, pending and past (contract §8). */
export function approvalRoutes(deps: AppendingDeps): FastifyPluginAsyncTypebox {
  const answerResolved = (request: FastifyRequest, id: string, resolution: ResolutionInput) =>
    resolveApprovalUseCase.run(deps, callerOf(request), { id, resolution });
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
      { config: read, schema: { params: IdParams, response: { 200: ApprovalAnswer } } },
      async (request) => {
        const approvalId = approvalIdOf(request.params.id);
        const nowMs = deps.clock.now();
        const approval = await findApproval(deps.sql, callerOf(request), { approvalId, nowMs });
        if (approval === null) throw new ApiError('approval_not_found');
        return renderApproval(approval);
      },
    );

    app.post('/approvals/:id/approve', { config: resolve, schema: resolution }, async (request) =>
      answerResolved(request, request.params.id, { status: 'approved', note: request.body.note ?? null }),
    );

    app.post('/approvals/:id/deny', { config: resolve, schema: resolution }, async (request) =>
      answerResolved(request, request.params.id, { status: 'denied', note: request.body.note ?? null }),
    );
  };
}
