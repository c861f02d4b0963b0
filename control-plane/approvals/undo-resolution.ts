import { ApiError } from '../../shared/errors/api-error.ts';
import { type Approval, approvalUndoMs } from '../../shared/model/approval.ts';
import type { ApprovalId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { administer } from '../audit/administer.ts';
import type { Caller } from '../http/caller.ts';
import { approvalAt, lockApproval, type StoredApproval, writeUndone } from './approval-store.ts';
import { attestResolutions } from './attest-resolutions.ts';
import { emitApprovalEvents } from './emit-approval-events.ts';
import { holdAgain } from './hold-again.ts';
import { onAudit, type ResolutionDeps } from './resolve-approval.ts';

/**
 * Takes an answer back within `approvalUndoMs`: the approval is pending again, with the expiry it had. Only
 * for the key or person that gave the answer, and not once the approval was used, the same request waits
 * anew, or the money of a denied one is gone; else `approval_already_resolved`. A record with `resolution`
 * voided follows that of the answer.
 */
export async function undoResolution(
  deps: ResolutionDeps,
  caller: Caller,
  approvalId: ApprovalId,
): Promise<Approval> {
  return administer(deps, caller, async (tx) => {
    const locked = await lockApproval(tx, caller, approvalId);
    if (locked === null) throw new ApiError('approval_not_found');
    const nowMs = deps.clock.now();
    refuseToUndo(locked, caller.actor.id, nowMs);
    const undone: StoredApproval = {
      ...locked,
      status: 'pending',
      expiresAtMs: (locked.createdAtMs + locked.expiresInMs) as UnixMillis,
      resolvedAtMs: null,
      resolvedBy: null,
      note: null,
    };
    if (!(await writeUndone(tx, undone))) throw isOver('The same request waits for an answer again.');
    await attestResolutions(tx, deps, [undone], { resolution: 'voided', nowMs });
    await emitApprovalEvents(tx, deps, 'approval.requested', [undone], nowMs);
    if (locked.status === 'denied' && !(await holdAgain(tx, locked, nowMs)))
      throw isOver('The money of this request cannot be held again, or its gate has changed.');
    return {
      result: approvalAt(undone, nowMs),
      audited: {
        operation: 'undoApproval',
        target: approvalId,
        before: onAudit(deps, locked),
        after: onAudit(deps, undone),
      },
    };
  });
}

function refuseToUndo(
  { status, resolvedAtMs, resolvedBy }: StoredApproval,
  actorId: string,
  nowMs: UnixMillis,
): void {
  if (status === 'pending') throw isOver('The approval is pending: there is no answer to undo.');
  if (status !== 'approved' && status !== 'denied') throw isOver(`The approval is already ${status}.`);
  if (resolvedBy !== actorId) throw isOver('Only the one who answered can undo the answer.');
  if (resolvedAtMs === null || nowMs >= resolvedAtMs + approvalUndoMs)
    throw isOver(`An answer can be undone for ${approvalUndoMs / 1_000} s. That time is over.`);
}

const isOver = (message: string): ApiError => new ApiError('approval_already_resolved', { message });
