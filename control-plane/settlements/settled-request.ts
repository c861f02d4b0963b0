import type { AccountId, GateId } from '../../shared/model/ids.ts';
import type { SettledRequest, SettlementAnswer } from '../../shared/wire/settlement.ts';
import type { ApprovalBinding } from '../approvals/approval-store.ts';
import type { ClaimedPermit, PermitKey } from '../enforcement/permit-claims.ts';
import type { SettledGate } from './read-parties.ts';

/** Null: the request carries no idempotency key. The account is that of the sidecar. */
export const keyOf = (call: SettledRequest, accountId: AccountId): PermitKey | null =>
  call.idempotency_key === null
    ? null
    : {
        passportId: call.passport_id,
        scopeId: call.gate_id ?? accountId,
        idempotencyKey: call.idempotency_key,
      };

/** What an approval of the request is bound to (decisions §8). */
export const bindingTo = (call: SettledRequest & { readonly gate_id: GateId }): ApprovalBinding => ({
  passportId: call.passport_id,
  gateId: call.gate_id,
  gateVersion: call.gate_version,
  requestHash: call.request_hash,
});

/**
 * The same where an approval of it can count: null without a gate, and where the gate's policy was changed or the gate deleted since the sidecar
 * looked at it, so that no approval is of that policy any more.
 */
export const bindingNow = (call: SettledRequest, gate: SettledGate | null): ApprovalBinding | null =>
  gate === null || gate.policyVersion !== call.gate_version || gate.isDeleted
    ? null
    : bindingTo({ ...call, gate_id: gate.gateId });

/** What a call is told whose key belongs to an earlier PERMIT (decisions §5). */
export const answerEarlier = (earlier: ClaimedPermit, call: SettledRequest): SettlementAnswer =>
  earlier.requestHash === call.request_hash
    ? {
        kind: 'replayed',
        first: {
          attestation_id: earlier.attestationId,
          constraints_evaluated: earlier.constraintsEvaluated,
          pii: earlier.pii,
        },
      }
    : { kind: 'conflict' };
