import type { Gate } from '../../shared/model/gate.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Transaction } from '../base/database.ts';
import { writeVoid } from './approval-store.ts';
import { type ExpiryDeps, expireApprovals } from './expire-approvals.ts';

/**
 * Ends the open approvals of a changed or deleted gate (contract §8) in the caller's transaction, which has
 * locked the gate. From the commit on each is `expired`. After the commit the caller calls `expireVoided`,
 * which writes their records and events and frees their money; if that fails, the next sweep does
 * (`approvalsLimits.approvalSweepIntervalMs`).
 */
export const voidApprovals = (
  tx: Transaction,
  {
    gateId,
    policyVersion,
    isDeleted,
  }: Pick<Gate, 'gateId' | 'policyVersion'> & { readonly isDeleted: boolean },
  nowMs: UnixMillis,
): Promise<number> => writeVoid(tx, gateId, isDeleted ? null : policyVersion, nowMs);

/**
 * Frees the money of `voided` approvals, one batch of at most `limits.approvalsPerSweepMax`; the sweep does
 * the rest. Never throws: the gate's change is committed and must not be answered with an error.
 */
export async function expireVoided(deps: ExpiryDeps, voided: number): Promise<void> {
  if (voided === 0) return;
  try {
    await expireApprovals(deps);
  } catch (error) {
    deps.logger.warn(
      { err: error },
      'voided approvals could not be expired: their money stays held until the next sweep',
    );
  }
}
