import type { CompiledGate } from '../../shared/decision/compile-gate.ts';
import type { RequestFacts, VerifiedPassport } from '../../shared/decision/facts.ts';
import { assert, must } from '../../shared/errors/assert.ts';
import type { ApprovalId } from '../../shared/model/ids.ts';
import type { PermissionKey } from '../../shared/model/permission.ts';
import type { LeaseReturn } from '../../shared/wire/lease-call.ts';
import type {
  LookUpSettlement,
  PermitSettlement,
  SettledRequest,
  SuspendSettlement,
} from '../../shared/wire/settlement.ts';
import type { SpooledRecord } from '../../shared/wire/sync.ts';
import type { Made } from './call.ts';

export const lookUpOf = (made: Made, request: RequestFacts): LookUpSettlement => ({
  kind: 'look_up',
  ...settledRequest(made.gate, passportOf(made), request),
  approval_id: request.approvalId,
});

export const permitOf = (made: Made, request: RequestFacts, record: SpooledRecord): PermitSettlement => ({
  kind: 'permit',
  ...settledRequest(made.gate, passportOf(made), request),
  record,
  approval_id: request.approvalId,
});

export function suspendOf(
  made: Made,
  request: RequestFacts,
  about: {
    readonly approvalId: ApprovalId;
    /** As it may be recorded. */
    readonly permissionKey: PermissionKey | null;
    readonly held: readonly LeaseReturn[];
  },
): SuspendSettlement {
  const { decision } = made;
  const gate = must(made.gate, 'only a gate suspends');
  return {
    kind: 'suspend',
    ...settledRequest(gate, passportOf(made), request),
    gate_id: gate.gateId,
    approval_id: about.approvalId,
    permission_key: about.permissionKey,
    amount_micro_usd: decision.amountMicroUsd,
    constraints_evaluated: decision.evaluated,
    pii: decision.pii,
    expires_in_ms: must(
      decision.approvalExpiresInMs,
      'a SUSPEND that opens an approval says how long it waits',
    ),
    held: about.held,
  };
}

function settledRequest(
  gate: CompiledGate | null,
  passport: VerifiedPassport,
  request: RequestFacts,
): SettledRequest {
  return {
    passport_id: passport.passportId,
    token_hash: passport.tokenHash,
    gate_id: gate?.gateId ?? null,
    gate_version: gate?.policyVersion ?? 0,
    request_hash: request.requestHash,
    idempotency_key: request.idempotencyKey,
  };
}

/** What a refused token asks for is blocked at once. */
function passportOf({ facts }: Made): VerifiedPassport {
  assert(facts.kind === 'verified', 'only what a verified passport asks for is settled');
  return facts.passport;
}
