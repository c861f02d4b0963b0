import type { ArrivedSettlement, SettlementAnswer } from '../../shared/wire/settlement.ts';
import { findPendingApproval, readStanding } from '../approvals/approval-store.ts';
import type { RecordSender } from '../attestations/judge-records.ts';
import type { Transaction } from '../deps.ts';
import { findClaim } from '../enforcement/permit-claims.ts';
import { readParties } from './read-parties.ts';
import { answerEarlier, bindingNow, keyOf } from './settled-request.ts';

/** Changes nothing: says what stands behind the key, then behind the approval, then whether the same request waits for one already. */
export async function lookUp(
  tx: Transaction,
  call: Extract<ArrivedSettlement, { kind: 'look_up' }>,
  { accountId, nowMs }: RecordSender,
): Promise<SettlementAnswer> {
  const gate = await readParties(tx, accountId, call);
  const key = keyOf(call, accountId);
  const earlier = key === null ? null : await findClaim(tx, key, nowMs);
  if (earlier !== null) return answerEarlier(earlier, call);

  const binding = bindingNow(call, gate);
  if (call.approval_id !== null) {
    if (binding === null) return { kind: 'approval', standing: 'mismatch', expires_at_ms: null };
    const found = await readStanding(tx, call.approval_id, binding, nowMs);
    return { kind: 'approval', standing: found.standing, expires_at_ms: found.expiresAtMs };
  }
  const waiting = binding === null ? null : await findPendingApproval(tx, binding);
  if (waiting === null || waiting.expiresAtMs <= nowMs) {
    return { kind: 'approval', standing: 'none', expires_at_ms: null };
  }
  const { approvalId, expiresAtMs } = waiting;
  return { kind: 'suspended', approval_id: approvalId, expires_at_ms: expiresAtMs, is_new: false };
}
