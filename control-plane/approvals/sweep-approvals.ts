import { limits } from '../../shared/model/limits.ts';
import { type Repetition, repeat } from '../../shared/runtime/repeat.ts';
import type { AppendingDeps } from '../attestations/deps.ts';
import { expireApprovals } from './expire-approvals.ts';
import { approvalsLimits } from './limits.ts';

/**
 * Lets approvals expire whose time is over, every `approvalsLimits.approvalSweepIntervalMs`, on every
 * replica: money that can no longer be used is free that long after at the latest. While the database is
 * unreachable nothing expires here; it does when the database is back. Nothing here ever throws; trouble is
 * logged when it begins and when it ends.
 */
export function startApprovalSweep(
  deps: Pick<AppendingDeps, 'sql' | 'clock' | 'random' | 'signingKeys' | 'appending' | 'logger'>,
): Repetition {
  let isFailing = false;
  return repeat(async (state) => {
    try {
      let expired: number;
      // A full batch may not have been all.
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
