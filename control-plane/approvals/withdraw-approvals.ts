import type { ApprovalId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { NewRecord } from '../attestations/append-records.ts';
import type { AppendingDeps } from '../attestations/deps.ts';
import type { Transaction } from '../base/database.ts';
import type { HeldUnits } from '../quota/held-units.ts';
import { writeWithdrawn } from './approval-store.ts';
import { resolutionRecords } from './attest-resolutions.ts';
import { emitApprovalEvents } from './emit-approval-events.ts';

/**
 * Ends approvals that no client was told of, unless a person has resolved them. Returns the remaining work of
 * the caller's transaction, in lock order: records of their expiry, then their held units. If the sweep did
 * this, a retry of the refused request would find its own money held.
 */
export async function withdrawApprovals(
  tx: Transaction,
  deps: Pick<AppendingDeps, 'random' | 'baseUrl'>,
  approvalIds: readonly ApprovalId[],
  nowMs: UnixMillis,
): Promise<{ readonly records: readonly NewRecord[]; readonly units: readonly HeldUnits[] }> {
  if (approvalIds.length === 0) return { records: [], units: [] };
  const withdrawn = await writeWithdrawn(tx, approvalIds);
  await emitApprovalEvents(tx, deps, 'approval.resolved', withdrawn, nowMs);
  return {
    records: await resolutionRecords(tx, deps, withdrawn, { resolution: 'expired', nowMs }),
    units: withdrawn.flatMap(({ holds }) => holds),
  };
}
