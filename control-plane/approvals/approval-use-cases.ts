import type { Static } from 'typebox';
import { invalidRequest } from '../../shared/errors/api-error.ts';
import { holdsScope } from '../../shared/model/scopes.ts';
import { type ApprovalListQuery, renderApproval } from '../../shared/wire/api/approval.ts';
import { canonicalName } from '../../shared/wire/api/email.ts';
import { placePage, renderPage } from '../../shared/wire/api/paging.ts';
import type { AppendingDeps } from '../attestations/deps.ts';
import type { Caller } from '../http/caller.ts';
import { pathId } from '../http/path-id.ts';
import type { UseCase } from '../http/use-case.ts';
import { findOnePeople } from '../people/one-people.ts';
import { listApprovals } from './approval-store.ts';
import { type ResolutionInput, resolveApproval } from './resolve-approval.ts';
import { undoResolution } from './undo-resolution.ts';
import type { Answerer } from './waits-for.ts';

export const approvalIdOf = (text: string) => pathId('appr', text, 'approval_not_found');

/** `GET /approvals` */
export const listApprovalsUseCase = {
  scope: 'approvals:read',
  run: async (deps, caller, query) => {
    const { waiting_for: waitingFor } = query;
    if (waitingFor !== undefined && (query.status ?? 'pending') !== 'pending')
      throw invalidRequest('waiting_for', 'waiting_for=me lists pending approvals. Leave status out.');
    const status = waitingFor === undefined ? (query.status ?? null) : 'pending';
    const waitsFor = waitingFor === undefined ? null : await answererOf(deps, caller);
    const user = canonicalName(query.user ?? null);
    const asker = waitsFor === null ? null : caller.actor.id;
    const page = placePage(query, caller, 'approvals', [status, asker, user]);
    const nowMs = deps.clock.now();
    const found = await listApprovals(deps.sql, caller, { status, waitsFor, user, page, nowMs });
    return renderPage(found, page, (approval) => renderApproval(approval, deps.baseUrl));
  },
} as const satisfies UseCase<AppendingDeps, Static<typeof ApprovalListQuery>, object>;

async function answererOf(
  { sql, clock }: Pick<AppendingDeps, 'sql' | 'clock'>,
  { scopes, person, accountId }: Caller,
): Promise<Answerer> {
  if (!holdsScope(scopes, 'approvals:resolve')) return { kind: 'none' };
  if (person === null) return { kind: 'key' };
  const { userId } = person;
  const one = await findOnePeople(sql, accountId, { nowMs: clock.now() });
  return { kind: 'person', userId, allOne: one.allOneWith([userId]) };
}

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
