import type { AccountId, GateId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import {
  type FirstPermitBody,
  firstPermitBody,
  type SettledRequest,
  type SettlementAnswer,
} from '../../shared/wire/settlement.ts';
import type { ApprovalBinding } from '../approvals/approval-store.ts';
import type { RecordSender } from '../attestations/judge-records.ts';
import type { HolderName } from '../quota/holder-store.ts';
import type { SettledGate } from './read-parties.ts';
import type { ClaimedPermit, ClaimQuestion, PermitKey } from './settlement-store.ts';

/** Null: the request has no idempotency key. The account is that of the sidecar. */
const keyOf = (settled: SettledRequest, accountId: AccountId): PermitKey | null =>
  settled.idempotency_key === null
    ? null
    : {
        passportId: settled.passport_id,
        scopeId: settled.gate_id ?? accountId,
        idempotencyKey: settled.idempotency_key,
      };

/** The sidecar that settles, and as whom. */
export type SettlementSender = RecordSender & HolderName;

/** `decidedAtMs`: of a permit, by the clock of its sidecar. Default: now. */
export const questionOf = (
  settled: SettledRequest,
  { accountId, sidecarId, nowMs }: SettlementSender,
  decidedAtMs: UnixMillis = nowMs,
): ClaimQuestion => ({
  key: keyOf(settled, accountId),
  requestHash: settled.request_hash,
  readerId: settled.reader_id,
  source: sidecarId,
  askedAtMs: decidedAtMs < nowMs ? decidedAtMs : nowMs,
});

/** What an approval of the request is bound to (contract §8). */
export const bindingTo = (settled: SettledRequest & { readonly gate_id: GateId }): ApprovalBinding => ({
  passportId: settled.passport_id,
  gateId: settled.gate_id,
  gateVersion: settled.gate_version,
  requestHash: settled.request_hash,
});

/**
 * The same where an approval of it can count: null without a gate, and where the gate's policy was changed or
 * the gate deleted since the sidecar looked at it, so that no approval is of that policy any more.
 */
export const bindingNow = (settled: SettledRequest, gate: SettledGate | null): ApprovalBinding | null =>
  gate === null || gate.policyVersion !== settled.gate_version || gate.isDeleted
    ? null
    : bindingTo({ ...settled, gate_id: gate.gateId });

/** What a settlement is answered whose key belongs to an earlier PERMIT (contract §5). */
export const answerEarlier = (earlier: ClaimedPermit, settled: SettledRequest): SettlementAnswer =>
  earlier.requestHash === settled.request_hash
    ? { kind: 'replayed', first: firstPermitBody(earlier) satisfies FirstPermitBody }
    : { kind: 'conflict' };
