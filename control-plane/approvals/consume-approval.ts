import type { ApprovalId, AttestationId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Transaction } from '../base/database.ts';
import { type ApprovalBinding, type FoundApproval, readUse, writeUse } from './approval-store.ts';

/**
 * Uses an approval for the PERMIT with this record: `approved` becomes `used`, once, in one conditional
 * update, so that of two requests with the same approval one wins and the other finds `used`. What the
 * approval held stays counted: it is spent now. Asked again with the same record it answers `consumed` again,
 * however late.
 *
 * `consumed` takes effect when the caller's transaction commits. The row is locked from here to there, so
 * this comes before chains and quota windows are locked (the order is in storage/locks.ts). Any other answer
 * is the reason, never `approved`; nothing was changed then.
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
    // Approved between the two statements, it can be used now. States only move on, so this happens once at
    // most.
    if (found.state !== 'approved') return found;
  }
}
