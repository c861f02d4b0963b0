import type { ApprovalId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { NewRecord } from '../attestations/append-records.ts';
import type { AppendingDeps } from '../attestations/deps.ts';
import type { Transaction } from '../base/database.ts';
import type { HeldUnits } from '../quota/held-units.ts';
import { writeWithdrawn } from './approval-store.ts';
import { resolutionRecord } from './attest-resolutions.ts';
import { emitApprovalEvents } from './emit-approval-events.ts';

/**
 * Ends approvals with which no client was answered, unless a person has resolved them. Returns what the
 * caller's transaction has left to do, in the order of the locks: the records of their expiry, then the units
 * that they held. Left to the sweep, a retry of the refused request would find its own money held.
 */
export async function withdrawApprovals(
  tx: Transaction,
  deps: Pick<AppendingDeps, 'random'>,
  approvalIds: readonly ApprovalId[],
  nowMs: UnixMillis,
): Promise<{ readonly records: readonly NewRecord[]; readonly units: readonly HeldUnits[] }> {
  if (approvalIds.length === 0) return { records: [], units: [] };
  const withdrawn = await writeWithdrawn(tx, approvalIds);
  await emitApprovalEvents(tx, deps, 'approval.resolved', withdrawn, nowMs);
  return {
    records: withdrawn.map((approval) => resolutionRecord(deps, approval, { resolution: 'expired', nowMs })),
    units: withdrawn.flatMap(({ holds }) => holds),
  };
}
