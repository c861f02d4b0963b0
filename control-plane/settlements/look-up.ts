import type { ApprovalId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { ArrivedSettlement, SettlementAnswer } from '../../shared/wire/settlement.ts';
import { type ApprovalBinding, findPendingApproval, readStanding } from '../approvals/approval-store.ts';
import type { RecordSender } from '../attestations/judge-records.ts';
import type { Transaction } from '../deps.ts';
import { findClaim } from '../enforcement/permit-claims.ts';
import { readParties } from './read-parties.ts';
import { answerEarlier, bindingNow, keyOf } from './settled-request.ts';

/**
 * Changes nothing: says what stands behind the approval, the key, and whether the same request waits for an approval already. An approval that refuses the
 * request comes before the key, because `decide` looks at it before any limit, and only what the first PERMIT itself leaves behind lets the first one be
 * answered again (shared/decision/may-be-replay.ts).
 */
export async function lookUp(
  tx: Transaction,
  call: Extract<ArrivedSettlement, { kind: 'look_up' }>,
  { accountId, nowMs }: RecordSender,
): Promise<SettlementAnswer> {
  const { gate } = await readParties(tx, accountId, call);
  const binding = bindingNow(call, gate);
  const presented =
    call.approval_id === null ? null : await readPresented(tx, call.approval_id, binding, nowMs);
  if (presented !== null && refusing.has(presented.standing)) return presented;

  const key = keyOf(call, accountId);
  const earlier = key === null ? null : await findClaim(tx, key, nowMs);
  if (earlier !== null) return answerEarlier(earlier, call);
  if (presented !== null) return presented;

  const waiting = binding === null ? null : await findPendingApproval(tx, binding);
  if (waiting === null || waiting.expiresAtMs <= nowMs) {
    return { kind: 'approval', standing: 'none', expires_at_ms: null };
  }
  const { approvalId, expiresAtMs } = waiting;
  return { kind: 'suspended', approval_id: approvalId, expires_at_ms: expiresAtMs, is_new: false };
}

type Presented = Extract<SettlementAnswer, { kind: 'approval' }>;

/** `used` is not among them: it may be the first PERMIT of the key that used it. */
const refusing: ReadonlySet<Presented['standing']> = new Set(['mismatch', 'denied', 'expired']);

async function readPresented(
  tx: Transaction,
  approvalId: ApprovalId,
  binding: ApprovalBinding | null,
  nowMs: UnixMillis,
): Promise<Presented> {
  if (binding === null) return { kind: 'approval', standing: 'mismatch', expires_at_ms: null };
  const { standing, expiresAtMs } = await readStanding(tx, approvalId, binding, nowMs);
  return { kind: 'approval', standing, expires_at_ms: expiresAtMs };
}
