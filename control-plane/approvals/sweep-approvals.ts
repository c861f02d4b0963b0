import { limits } from '../../shared/model/limits.ts';
import { type Repetition, repeat } from '../../shared/runtime/repeat.ts';
import type { AppendingDeps } from '../attestations/deps.ts';
import { expireApprovals } from './expire-approvals.ts';
import { approvalsLimits } from './limits.ts';

/**
 * Expires overdue approvals every `approvalsLimits.approvalSweepIntervalMs` on every replica, so that
 * unusable money is freed within that time. While the database is unreachable the sweep pauses. Never throws;
 * trouble is logged when it begins and when it ends.
 */
export function startApprovalSweep(
  deps: Pick<AppendingDeps, 'sql' | 'clock' | 'random' | 'signingKeys' | 'appending' | 'logger'>,
): Repetition {
  let isFailing = false;
  return repeat(async (state) => {
    try {
      let expired: number;
      // After a full batch more may be due.
      do expired = await expireApprovals(deps);
      while (expired === limits.approvalsPerSweepMax && !state.isStopped);
      if (isFailing) deps.logger.info({}, 'expiry of approvals has resumed');
      isFailing = false;
    } catch (error) {
      if (!isFailing)
        deps.logger.warn({ err: error }, 'approvals could not be expired: their money stays held');
      isFailing = true;
    }
    return approvalsLimits.approvalSweepIntervalMs;
  });
}
