import type { ApprovalId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { NewRecord } from '../attestations/append-records.ts';
import type { AppendingDeps } from '../attestations/deps.ts';
import type { Transaction } from '../base/database.ts';
import type { Book } from '../book/post.ts';
import { writeWithdrawn } from './approval-store.ts';
import { resolutionRecords } from './attest-resolutions.ts';
import { emitApprovalEvents } from './emit-approval-events.ts';

/**
 * Ends approvals that no client was told of, unless a person has resolved them, and frees what they hold.
 * Returns the records of their expiry, for the caller to append. If the sweep did this, a retry of the
 * refused request would find its own money held.
 */
export async function withdrawApprovals(
  tx: Transaction,
  deps: Pick<AppendingDeps, 'random' | 'baseUrl'>,
  book: Book,
  approvalIds: readonly ApprovalId[],
  nowMs: UnixMillis,
): Promise<readonly NewRecord[]> {
  if (approvalIds.length === 0) return [];
  const withdrawn = await writeWithdrawn(tx, approvalIds);
  await emitApprovalEvents(tx, deps, 'approval.resolved', withdrawn, nowMs);
  book.free(withdrawn.flatMap(({ holds }) => holds));
  return resolutionRecords(tx, deps, withdrawn, { resolution: 'expired', nowMs });
}
