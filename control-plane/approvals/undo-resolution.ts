import { ApiError } from '../../shared/errors/api-error.ts';
import { type Approval, approvalUndoMs } from '../../shared/model/approval.ts';
import type { ApprovalId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { administer } from '../audit/administer.ts';
import type { Transaction } from '../base/database.ts';
import { quotaLimits } from '../book/limits.ts';
import { emitReopened } from '../channels/emit-messages.ts';
import type { Caller } from '../http/caller.ts';
import { boundWaits } from '../storage/bound-waits.ts';
import { writeTakenBack } from './answer-store.ts';
import { approvalAt, lockApproval, type StoredApproval, writeUndone } from './approval-store.ts';
import { attestResolutions } from './attest-resolutions.ts';
import { emitApprovalEvents, hintApprovals } from './emit-approval-events.ts';
import { holdAgain } from './hold-again.ts';
import { onAudit, type ResolutionDeps } from './resolve-approval.ts';

/**
 * Takes an answer back within `approvalUndoMs`: a resolved approval is pending again, with the expiry it had
 * and the answers of others. Only for the key or person that gave the answer, and not once the approval was
 * used, the same request waits anew, or the money of a denied one is gone; else `approval_already_resolved`.
 * Where the approval was resolved, a record with `resolution` voided follows that of the resolution.
 */
export async function undoResolution(
  deps: ResolutionDeps,
  caller: Caller,
  approvalId: ApprovalId,
): Promise<Approval> {
  return administer(deps, caller, async (tx) => {
    await boundWaits(tx, { lockMsMax: quotaLimits.changeLockMsMax });
    const locked = await lockApproval(tx, caller, approvalId);
    if (locked === null) throw new ApiError('approval_not_found');
    const nowMs = deps.clock.now();
    const isPending = locked.status === 'pending';
    // One that nobody has resolved is over at its expiry, also before that is written.
    refuseToUndo(isPending ? approvalAt(locked, nowMs) : locked, caller.actor.id, nowMs);
    const userId = caller.person?.userId ?? null;
    if (userId !== null) await writeTakenBack(tx, approvalId, userId, nowMs);
    const undone: StoredApproval = {
      ...locked,
      answers: locked.answers.filter((each) => each.userId !== userId),
      status: 'pending',
      expiresAtMs: (locked.createdAtMs + locked.expiresInMs) as UnixMillis,
      resolvedAtMs: null,
      resolvedBy: null,
      note: null,
    };
    if (isPending) hintApprovals(tx, [undone]);
    else await reopen(tx, deps, { locked, undone, nowMs });
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

async function reopen(
  tx: Transaction,
  deps: ResolutionDeps,
  about: { readonly locked: StoredApproval; readonly undone: StoredApproval; readonly nowMs: UnixMillis },
): Promise<void> {
  const { locked, undone, nowMs } = about;
  if (!(await writeUndone(tx, undone))) throw isOver('The same request waits for an answer again.');
  await attestResolutions(tx, deps, [undone], { resolution: 'voided', nowMs });
  await emitReopened(tx, undone.approvalId);
  await emitApprovalEvents(tx, deps, 'approval.requested', [undone], nowMs);
  if (locked.status === 'denied' && !(await holdAgain(tx, locked, nowMs)))
    throw isOver('The money of this request cannot be held again, or its gate has changed.');
}

function refuseToUndo(approval: StoredApproval, actorId: string, nowMs: UnixMillis): void {
  const { status } = approval;
  const answeredAtMs = answeredAt(approval, actorId);
  if (status === 'pending' && answeredAtMs === null)
    throw isOver('The approval is pending: there is no answer of yours to undo.');
  if (status !== 'pending' && status !== 'approved' && status !== 'denied')
    throw isOver(`The approval is already ${status}.`);
  if (answeredAtMs === null) throw isOver('Only the one who answered can undo the answer.');
  if (nowMs >= answeredAtMs + approvalUndoMs)
    throw isOver(`An answer can be undone for ${approvalUndoMs / 1_000} s. That time is over.`);
}

/**
 * When this key or person gave an answer on which the status rests; null: never. An approval that somebody
 * has denied rests on the denial alone.
 */
function answeredAt(
  { status, answers, resolvedAtMs, resolvedBy }: StoredApproval,
  actorId: string,
): UnixMillis | null {
  const own = answers.find(({ userId }) => userId === actorId);
  if (own !== undefined) return own.answer === 'denied' || status !== 'denied' ? own.atMs : null;
  return resolvedBy === actorId ? resolvedAtMs : null;
}

const isOver = (message: string): ApiError => new ApiError('approval_already_resolved', { message });
