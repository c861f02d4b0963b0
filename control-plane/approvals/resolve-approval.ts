import { ApiError } from '../../shared/errors/api-error.ts';
import type { Approval } from '../../shared/model/approval.ts';
import type { ApprovalId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { type ApprovalAnswer, renderApproval } from '../../shared/wire/approval.ts';
import type { AppendingDeps } from '../attestations/deps.ts';
import { administer } from '../audit/administer.ts';
import type { Caller } from '../http/caller.ts';
import { freeUnits } from '../quota/hold.ts';
import { approvalAt, lockApproval, type Resolved, writeResolution } from './approval-store.ts';
import { attestResolutions } from './attest-resolutions.ts';
import { emitApprovalEvents } from './emit-approval-events.ts';

export type ResolutionDeps = Pick<
  AppendingDeps,
  'sql' | 'clock' | 'random' | 'bus' | 'baseUrl' | 'signingKeys' | 'appending'
>;

/** A person's decision about a request. */
export interface ResolutionInput {
  readonly status: 'approved' | 'denied';
  readonly note: string | null;
}

/** In the audit chain, which is kept for ever: without the display, which is not. */
export const onAudit = ({ baseUrl }: Pick<ResolutionDeps, 'baseUrl'>, approval: Approval): ApprovalAnswer =>
  renderApproval({ ...approval, display: null }, baseUrl);

/**
 * Resolves a pending approval once: the second of two concurrent calls gets `approval_already_resolved`, and
 * so does a call after the expiry. Approved, it is usable for as long as it could be pending; denied, its
 * money is freed at once. The answer follows the commit of its record.
 *
 * Passport and gate are not checked: an approval only satisfies the demand for a person's approval. All other
 * checks run when the request is sent again; a passport revoked meanwhile blocks it then.
 */
export async function resolveApproval(
  deps: ResolutionDeps,
  caller: Caller,
  { approvalId, resolution }: { readonly approvalId: ApprovalId; readonly resolution: ResolutionInput },
): Promise<Approval> {
  return administer(deps, caller, async (tx) => {
    const locked = await lockApproval(tx, caller, approvalId);
    if (locked === null) throw new ApiError('approval_not_found');
    const nowMs = deps.clock.now();
    const { status } = approvalAt(locked, nowMs);
    if (status !== 'pending') {
      throw new ApiError('approval_already_resolved', { message: `The approval is already ${status}.` });
    }
    const resolved: Resolved = {
      ...locked,
      ...resolution,
      resolvedAtMs: nowMs,
      resolvedBy: caller.actor.id,
      expiresAtMs:
        resolution.status === 'approved' ? ((nowMs + locked.expiresInMs) as UnixMillis) : locked.expiresAtMs,
    };
    await writeResolution(tx, resolved);
    await attestResolutions(tx, deps, [resolved], { resolution: resolution.status, nowMs });
    await emitApprovalEvents(tx, deps, 'approval.resolved', [resolved], nowMs);
    if (resolution.status === 'denied') await freeUnits(tx, resolved.holds, nowMs);
    return {
      result: resolved,
      audited: {
        operation: resolution.status === 'approved' ? 'approveApproval' : 'denyApproval',
        target: approvalId,
        before: onAudit(deps, locked),
        after: onAudit(deps, resolved),
      },
    };
  });
}
