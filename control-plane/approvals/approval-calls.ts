import type { Static } from 'typebox';
import { type ApprovalListQuery, renderApproval } from '../../shared/wire/approval.ts';
import { renderPage } from '../../shared/wire/paging.ts';
import type { AppendingDeps } from '../attestations/deps.ts';
import type { Call } from '../http/call.ts';
import { pathId } from '../http/path-id.ts';
import { listApprovals } from './approval-store.ts';
import { resolveApproval, type Word } from './resolve-approval.ts';

export const approvalIdOf = (text: string) => pathId('appr', text, 'approval_not_found');

/** `GET /approvals` */
export const listApprovalsCall = {
  scope: 'approvals:read',
  run: async (deps, caller, query) => {
    const wanted = { status: query.status ?? null, page: query, nowMs: deps.clock.now() };
    return renderPage(await listApprovals(deps.sql, caller, wanted), query, renderApproval);
  },
} as const satisfies Call<AppendingDeps, Static<typeof ApprovalListQuery>, object>;

/** `POST /approvals/:id/approve` and `/deny` */
export const resolveApprovalCall = {
  scope: 'approvals:resolve',
  run: async (deps, caller, { id, word }) =>
    renderApproval(await resolveApproval(deps, caller, { approvalId: approvalIdOf(id), word })),
} as const satisfies Call<AppendingDeps, { readonly id: string; readonly word: Word }, object>;
