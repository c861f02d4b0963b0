import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { FastifyRequest } from 'fastify';
import { ApiError } from '../../shared/errors/api-error.ts';
import {
  ApprovalAnswer,
  ApprovalListQuery,
  ApprovalResolution,
  renderApproval,
} from '../../shared/wire/approval.ts';
import { PageAnswer, renderPage } from '../../shared/wire/paging.ts';
import type { Deps } from '../deps.ts';
import { callerOf } from '../http/auth.ts';
import { IdParams, pathId } from '../http/path-id.ts';
import { findApproval, listApprovals } from './approval-store.ts';
import { resolveApproval, type Word } from './resolve-approval.ts';

const read = { scope: 'approvals:read' } as const;
const resolve = { scope: 'approvals:resolve' } as const;
const resolution = { params: IdParams, body: ApprovalResolution, response: { 200: ApprovalAnswer } };
const approvalIdOf = (text: string) => pathId('appr', text, 'approval_not_found');

/** Requests at the caller's gates that wait for a person, or did (decisions §8). */
export function approvalRoutes(deps: Deps): FastifyPluginAsyncTypebox {
  const answerResolved = async (request: FastifyRequest, text: string, word: Word) => {
    const approvalId = approvalIdOf(text);
    return renderApproval(await resolveApproval(deps, callerOf(request), { approvalId, word }));
  };
  return async (app) => {
    app.get(
      '/approvals',
      {
        config: read,
        schema: { querystring: ApprovalListQuery, response: { 200: PageAnswer(ApprovalAnswer) } },
      },
      async (request) => {
        const wanted = {
          status: request.query.status ?? null,
          page: request.query,
          nowMs: deps.clock.now(),
        };
        const page = await listApprovals(deps.sql, callerOf(request), wanted);
        return renderPage(page, request.query, renderApproval);
      },
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
