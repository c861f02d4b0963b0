import { assert, must } from '../../shared/errors/assert.ts';
import type { ApprovalDisplay } from '../../shared/model/approval.ts';
import type { ApiKeyId, ApprovalId, AttestationId } from '../../shared/model/ids.ts';
import type { PermissionKey } from '../../shared/model/permission.ts';
import type { LeaseCounter, LeaseReturn } from '../../shared/wire/sync/lease-call.ts';
import type { SettledRequest, WindowInNeed } from '../../shared/wire/sync/settlement.ts';
import type { SpooledRecord } from '../../shared/wire/sync/sync.ts';
import type { Attempt } from '../decide/record.ts';
import type { UnsentSettlement } from './open-settlement.ts';

export const lookUpOf = (
  made: Attempt,
  about: { readonly readerId: AttestationId; readonly short: readonly WindowInNeed[] },
): UnsentSettlement => ({
  kind: 'look_up',
  ...settledRequest(made, about.readerId),
  approval_id: made.request.approvalId,
  short: about.short.map((each) => shownBy(made, each)),
});

export const permitOf = (
  made: Attempt,
  { readerId, record }: { readonly readerId: AttestationId; readonly record: SpooledRecord },
): UnsentSettlement => ({
  kind: 'permit',
  ...settledRequest(made, readerId),
  record,
  approval_id: made.request.approvalId,
});

export function suspendOf(
  made: Attempt,
  about: {
    readonly readerId: AttestationId;
    readonly approvalId: ApprovalId;
    /** As it may be recorded. */
    readonly permissionKey: PermissionKey | null;
    /** As the approval may show it. */
    readonly display: ApprovalDisplay | null;
    /** The key that asked; null: a peer that is trusted without one. */
    readonly askedBy: ApiKeyId | null;
    readonly held: readonly LeaseReturn[];
  },
): UnsentSettlement {
  const { decision } = made;
  const gate = must(made.gate, 'only a gate suspends');
  return {
    kind: 'suspend',
    ...settledRequest(made, about.readerId),
    gate_id: gate.gateId,
    approval_id: about.approvalId,
    permission_key: about.permissionKey,
    amount_micro_usd: decision.amountMicroUsd,
    // Absent where there is none: a control plane of the version before does not know it.
    ...(about.display !== null && { display: about.display }),
    // As the gate says, which a control plane of the version before does not.
    ...(gate.namesAsker && { asked_by: about.askedBy }),
    ...namedBy(made, 'owner'),
    constraints_evaluated: decision.evaluated,
    // A control plane that has told a shadow knows the member.
    ...(made.shadow !== null && { shadow: made.shadow }),
    ...(decision.conditions !== null && { conditions: decision.conditions }),
    pii: decision.pii,
    expires_in_ms: must(
      decision.approvalExpiresInMs,
      'a SUSPEND that opens an approval says how long it waits',
    ),
    held: about.held.map((each) => shownBy(made, each)),
  };
}

/** Passports share the window of a wallet, so it may name another one: in a settlement it names its own. */
function shownBy<Window extends LeaseCounter>({ facts }: Attempt, window: Window): Window {
  if (window.wallet === undefined || facts.kind !== 'verified') return window;
  const { passportId, tokenHash } = facts.passport;
  return { ...window, passport_id: passportId, token_hash: tokenHash };
}

/** Of our own passports the control plane knows it, and one of the version before no others. */
function namedBy<Name extends 'owner' | 'user'>(
  { facts }: Attempt,
  name: Name,
): { readonly [of in Name]?: string } {
  if (facts.kind !== 'verified' || facts.passport.source === null) return {};
  const named = facts.passport[name];
  return named === null ? {} : ({ [name]: named } as { readonly [of in Name]: string });
}

function settledRequest(made: Attempt, readerId: AttestationId): Omit<SettledRequest, 'wanted_ms'> {
  const { gate, facts, request } = made;
  // What a refused token asks for is blocked at once.
  assert(facts.kind === 'verified', 'only what a verified passport asks for is settled');
  return {
    passport_id: facts.passport.passportId,
    token_hash: facts.passport.tokenHash,
    gate_id: gate?.gateId ?? null,
    gate_version: gate?.policyVersion ?? 0,
    request_hash: request.requestHash,
    idempotency_key: request.idempotencyKey,
    reader_id: readerId,
    ...namedBy(made, 'user'),
  };
}
