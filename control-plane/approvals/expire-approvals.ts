import type { ApprovalId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import type { AppendingDeps } from '../attestations/deps.ts';
import { sweepLockMsMax } from '../book/limits.ts';
import { freeUnits } from '../book/post.ts';
import { boundWaits } from '../storage/bound-waits.ts';
import { isLockTimeout } from '../storage/database-away.ts';
import { isOutage } from '../storage/outage.ts';
import {
  findDueApprovals,
  lockDueApprovals,
  putOff,
  type StoredApproval,
  writeExpired,
} from './approval-store.ts';
import { attestResolutions } from './attest-resolutions.ts';
import { emitApprovalEvents } from './emit-approval-events.ts';

export type ExpiryDeps = Pick<
  AppendingDeps,
  'sql' | 'clock' | 'random' | 'baseUrl' | 'signingKeys' | 'appending' | 'logger'
>;

/**
 * Expires approvals whose time is over, pending or approved and unused: attests the expiry, emits its event
 * and frees what they hold. Reads show the expiry before that. Resolves to the number processed, at most
 * `limits.approvalsPerSweepMax`; more may be due.
 *
 * Each approval is locked, read and written in one transaction, which skips approvals locked by others. So
 * with any number of replicas and crashes, each approval expires once and its money is freed once.
 *
 * One bad approval must not hold up the others: a failed batch is retried one by one. Throws if nothing can
 * be written at all, or for one whose window others hold: it is due again with the next sweep.
 */
export async function expireApprovals(deps: ExpiryDeps): Promise<number> {
  try {
    return await expireBatch(deps, null);
  } catch (error) {
    if (isOutage(error)) throw error;
    return expireOneByOne(deps);
  }
}

/** `only`: at most this one. */
async function expireBatch(deps: ExpiryDeps, only: ApprovalId | null): Promise<number> {
  return deps.sql.begin(async (tx) => {
    const nowMs = deps.clock.now();
    await boundWaits(tx, { lockMsMax: sweepLockMsMax(only) });
    const due = await lockDueApprovals(tx, { nowMs, only, max: limits.approvalsPerSweepMax });
    if (due.length === 0) return 0;
    const expired = due.map((approval): StoredApproval => ({ ...approval, status: 'expired' }));
    const approvalIds = expired.map(({ approvalId }) => approvalId);
    await writeExpired(tx, approvalIds);
    await attestResolutions(tx, deps, expired, { resolution: 'expired', nowMs });
    await emitApprovalEvents(tx, deps, 'approval.resolved', expired, nowMs);
    await freeUnits(
      tx,
      expired.flatMap(({ holds }) => holds),
      nowMs,
    );
    return expired.length;
  });
}

/** Approvals that fail are reported and postponed, so that they do not block the others for long. */
async function expireOneByOne(deps: ExpiryDeps): Promise<number> {
  const due = await findDueApprovals(deps.sql, deps.clock.now(), limits.approvalsPerSweepMax);
  let heldUp: unknown = null;
  for (const approvalId of due) {
    try {
      await expireBatch(deps, approvalId);
    } catch (error) {
      if (isOutage(error)) throw error;
      if (isLockTimeout(error)) {
        heldUp = error;
        continue;
      }
      deps.logger.error(
        { approval_id: approvalId, ...withoutContent(error) },
        'an approval could not be expired: its money stays held until a retry succeeds',
      );
      await putOff(deps.sql, approvalId, deps.clock.now());
    }
  }
  if (heldUp !== null) throw heldUp;
  return due.length;
}

/** The error of a refused row may quote the row. */
const withoutContent = (error: unknown): object =>
  error instanceof Error
    ? {
        error: error.name,
        code: 'code' in error ? error.code : null,
        at: error.stack?.split('\n').filter((line) => /^ +at /.test(line)),
      }
    : {};
