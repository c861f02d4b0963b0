import { limits } from '../../shared/model/limits.ts';
import type { Repetition } from '../../shared/runtime/repeat.ts';
import { sweepWhenDue } from '../storage/due-work.ts';
import { forgetDisplays, removeEnded } from './approval-store.ts';
import { type ExpiryDeps, expireApprovals } from './expire-approvals.ts';
import { approvalsLimits } from './limits.ts';
import { closeStandingApprovals } from './standing-approval-store.ts';

/**
 * Expires overdue approvals within `approvalsLimits.approvalSweepIntervalMs` on every replica, so that
 * unusable money is freed within that time, trims what is old, and writes down what expired standing
 * approvals used.
 */
export function startApprovalSweep(deps: ExpiryDeps): Repetition {
  let trimmedAtMs = Number.NEGATIVE_INFINITY;
  return sweepWhenDue(deps, 'approvals', {
    usualMs: approvalsLimits.approvalSweepIntervalMs,
    batch: () => expireApprovals(deps),
    batchMax: limits.approvalsPerSweepMax,
    afterwards: async () => {
      if (deps.clock.monotonic() - trimmedAtMs < approvalsLimits.trimIntervalMs) return;
      if (await trimApprovals(deps)) trimmedAtMs = deps.clock.monotonic();
    },
    trouble: {
      begins: 'approvals could not be expired: their money stays held',
      ends: 'expiry of approvals has resumed',
    },
  });
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
