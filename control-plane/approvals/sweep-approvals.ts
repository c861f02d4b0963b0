import { limits } from '../../shared/model/limits.ts';
import type { Repetition } from '../../shared/runtime/repeat.ts';
import { repeatWhenDue } from '../storage/due-work.ts';
import { forgetDisplays, removeEnded } from './approval-store.ts';
import { type ExpiryDeps, expireApprovals } from './expire-approvals.ts';
import { approvalsLimits } from './limits.ts';
import { closeStandingApprovals } from './standing-approval-store.ts';

/**
 * Expires overdue approvals within `approvalsLimits.approvalSweepIntervalMs` on every replica, so that
 * unusable money is freed within that time, trims what is old, and writes down what expired standing
 * approvals used. While the database is unreachable the sweep pauses. Never throws; trouble is logged when it
 * begins and when it ends.
 */
export function startApprovalSweep(deps: ExpiryDeps): Repetition {
  let isFailing = false;
  let trimmedAtMs = Number.NEGATIVE_INFINITY;
  const usualMs = approvalsLimits.approvalSweepIntervalMs;
  const round = async (state: { readonly isStopped: boolean }) => {
    try {
      let expired: number;
      // After a full batch more may be due.
      do expired = await expireApprovals(deps);
      while (expired === limits.approvalsPerSweepMax && !state.isStopped);
      if (deps.clock.monotonic() - trimmedAtMs >= approvalsLimits.trimIntervalMs) {
        if (await trimApprovals(deps)) trimmedAtMs = deps.clock.monotonic();
      }
      if (isFailing) deps.logger.info({}, 'expiry of approvals has resumed');
      isFailing = false;
    } catch (error) {
      if (!isFailing)
        deps.logger.warn({ err: error }, 'approvals could not be expired: their money stays held');
      isFailing = true;
    }
    return usualMs;
  };
  return repeatWhenDue(deps.sql, 'approvals', { usualMs, round });
}

/** False: there may be more. */
async function trimApprovals({ sql, clock }: Pick<ExpiryDeps, 'sql' | 'clock'>): Promise<boolean> {
  const { rowsPerTrimMax: max } = approvalsLimits;
  const forgotten = await forgetDisplays(sql, clock.now(), max);
  const closed = await closeStandingApprovals(sql, clock.now());
  return (
    (await removeEnded(sql, clock.now(), max)) < max &&
    forgotten < max &&
    closed < approvalsLimits.standingApprovalsPerSweepMax
  );
}
