import type { ApprovalId, AttestationId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Transaction } from '../base/database.ts';
import { type ApprovalBinding, type FoundApproval, readUse, writeUse } from './approval-store.ts';

/**
 * Uses an approval for the PERMIT with this record: `approved` becomes `used`, once, in one conditional
 * update, so that of two requests with the same approval one wins and the other finds `used`. The held units
 * stay counted, as spent. A repeat with the same record answers `consumed` again, however late.
 *
 * `consumed` takes effect when the caller's transaction commits. The row is locked from here to there, so
 * this comes before chains and quota windows are locked (the order is in storage/locks.ts). Any other answer
 * is the reason, never `approved`, and nothing was changed.
 */
export async function consumeApproval(
  tx: Transaction,
  approvalId: ApprovalId,
  binding: ApprovalBinding,
  attestationId: AttestationId,
  nowMs: UnixMillis,
): Promise<'consumed' | FoundApproval> {
  for (;;) {
    if (await writeUse(tx, approvalId, binding, { attestationId, nowMs })) return 'consumed';
    const { attestationId: usedBy, ...found } = await readUse(tx, approvalId, binding, nowMs);
    if (usedBy === attestationId) return 'consumed';
    // It was approved between the two statements and can be used now. States never go back, so this happens
    // at most once.
    if (found.state !== 'approved') return found;
  }
}
