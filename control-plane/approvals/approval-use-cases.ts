import type { Static } from 'typebox';
import { type ApprovalListQuery, renderApproval } from '../../shared/wire/approval.ts';
import { placePage, renderPage } from '../../shared/wire/paging.ts';
import type { AppendingDeps } from '../attestations/deps.ts';
import { pathId } from '../http/path-id.ts';
import type { UseCase } from '../http/use-case.ts';
import { listApprovals } from './approval-store.ts';
import { type ResolutionInput, resolveApproval } from './resolve-approval.ts';
import { undoResolution } from './undo-resolution.ts';

export const approvalIdOf = (text: string) => pathId('appr', text, 'approval_not_found');

/** `GET /approvals` */
export const listApprovalsUseCase = {
  scope: 'approvals:read',
  run: async (deps, caller, query) => {
    const { status = null } = query;
    const page = placePage(query, caller, 'approvals', [status]);
    const found = await listApprovals(deps.sql, caller, { status, page, nowMs: deps.clock.now() });
    return renderPage(found, page, (approval) => renderApproval(approval, deps.baseUrl));
  },
} as const satisfies UseCase<AppendingDeps, Static<typeof ApprovalListQuery>, object>;

/** `POST /approvals/:id/undo` */
export const undoApprovalUseCase = {
  scope: 'approvals:resolve',
  run: async (deps, caller, id) =>
    renderApproval(await undoResolution(deps, caller, approvalIdOf(id)), deps.baseUrl),
} as const satisfies UseCase<AppendingDeps, string, object>;

/** `POST /approvals/:id/approve` and `/deny` */
export const resolveApprovalUseCase = {
  scope: 'approvals:resolve',
  run: async (deps, caller, { id, resolution }) =>
    renderApproval(
      await resolveApproval(deps, caller, { approvalId: approvalIdOf(id), resolution }),
      deps.baseUrl,
    ),
} as const satisfies UseCase<
  AppendingDeps,
  { readonly id: string; readonly resolution: ResolutionInput },
  object
>;
