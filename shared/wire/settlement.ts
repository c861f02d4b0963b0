import { Type } from 'typebox';
import { invalidRequest } from '../errors/api-error.ts';
import { approvalStatuses, type PresentedApproval } from '../model/approval.ts';
import type { PiiFinding } from '../model/attestation.ts';
import { piiTypes } from '../model/constraints.ts';
import { type CheckName, checkNames } from '../model/decision.ts';
import type { AccountId, ApprovalId, AttestationId, GateId, PassportId, SidecarId } from '../model/ids.ts';
import { limits } from '../model/limits.ts';
import type { MicroUsd } from '../model/money.ts';
import { type PermissionKey, permissionCharsMax } from '../model/permission.ts';
import type { UnixMillis } from '../model/time.ts';
import { closed, nullable } from './fields.ts';
import type { LeaseReturn } from './lease-call.ts';
import { findReturnFault, Holder, LeaseReturnBody } from './lease-call-schema.ts';
import { shapeReader } from './shape.ts';
import { parseBatchItem, type ShippedRecord } from './spooled-record.ts';
import type { SpooledRecord } from './sync.ts';
import { IdOf, Millis, parseJson, readerOf } from './sync-schema.ts';

/**
 * `POST /v1/sync/settlements`: a decision of a sidecar that must be true for all sidecars before it is answered. Not a public interface.
 * Three kinds:
 *
 *   permit    a PERMIT with an idempotency key, an approval, or both: claims the key, consumes the approval and appends the record, in one
 *             transaction (decisions §5 and §8). The committed claim is the record; the sidecar does not spool it.
 *   suspend   a SUSPEND: opens an approval that holds the money, or finds the one that is pending for the same request already.
 *   look_up   what stands behind a presented approval, or behind a key, before anything is decided.
 *
 * Each is safe to repeat: a permit is known by its record's id, a suspend by its approval_id. A sidecar that got no answer repeats the same
 * call in the background until it knows whether its charge was taken.
 */
export type SettlementCall = SettlementEnvelope & (PermitSettlement | SuspendSettlement | LookUpSettlement);

interface SettlementEnvelope {
  readonly sidecar_id: SidecarId;
  readonly connection_id: string;
  /** As in LeaseCall: whose units `held` are. */
  readonly holder: string;
}

/** What a key or an approval is bound to. */
export interface SettledRequest {
  readonly passport_id: PassportId;
  readonly token_hash: string;
  /** Null: `/enforce` without a gate. No approval is bound to it, an idempotency key may be. */
  readonly gate_id: GateId | null;
  /** Version of the gate's policy: what an approval is bound to. 0 without a gate. */
  readonly gate_version: number;
  readonly request_hash: string;
  readonly idempotency_key: string | null;
}

export interface PermitSettlement extends SettledRequest {
  readonly kind: 'permit';
  /** Of the decision PERMIT. */
  readonly record: SpooledRecord;
  readonly approval_id: ApprovalId | null;
}

export interface SuspendSettlement extends SettledRequest {
  readonly kind: 'suspend';
  /** Made by the sidecar. */
  readonly approval_id: ApprovalId;
  readonly gate_id: GateId;
  readonly permission_key: PermissionKey | null;
  readonly amount_micro_usd: MicroUsd | null;
  readonly constraints_evaluated: readonly CheckName[];
  readonly pii: readonly PiiFinding[];
  readonly expires_in_ms: number;
  /**
   * Money that the sidecar took from its leases for this, `amount_micro_usd` of each window: it passes into the approval, which frees it
   * at its end.
   */
  readonly held: readonly LeaseReturn[];
}

export interface LookUpSettlement extends SettledRequest {
  readonly kind: 'look_up';
  readonly approval_id: ApprovalId | null;
}

/** The first PERMIT under an idempotency key, as it was answered. */
export interface FirstPermit {
  readonly attestation_id: AttestationId;
  readonly constraints_evaluated: readonly CheckName[];
  readonly pii: readonly PiiFinding[];
}

export type SettlementAnswer =
  /** permit: it stands, by this call or by an earlier one with the same record. */
  | { readonly kind: 'committed' }
  /** All kinds: the key belongs to this earlier PERMIT of the same request. Nothing of this call was taken. */
  | { readonly kind: 'replayed'; readonly first: FirstPermit }
  /** All kinds: the key belongs to another request. Nothing of this call was taken. */
  | { readonly kind: 'conflict' }
  /**
   * look_up: what stands behind the approval (`none` where none was named). permit: it could not be consumed, for this reason, and
   * nothing was taken. `expires_at_ms` where there is such an approval.
   */
  | {
      readonly kind: 'approval';
      readonly standing: Exclude<PresentedApproval, 'unasked'>;
      readonly expires_at_ms: UnixMillis | null;
    }
  /**
   * suspend: it waits under this id. `is_new` false: an earlier one, of the same request; the money of this call was not taken. look_up that
   * names no approval: the same request waits already, so that it needs no money of its own (decisions §8); `is_new` is false then.
   */
  | {
      readonly kind: 'suspended';
      readonly approval_id: ApprovalId;
      readonly expires_at_ms: UnixMillis;
      readonly is_new: boolean;
    }
  /** suspend: too many requests of the passport wait at the gate (decisions §5). Nothing of this call was taken. */
  | { readonly kind: 'pending_exceeded' }
  /**
   * The call is not this sidecar's to make, for example for a gate of another account, or the passport was revoked or suspended before
   * the call came, which this sidecar is about to hear. Nothing was taken.
   */
  | { readonly kind: 'refused'; readonly message: string };

/** A call as it arrived, well formed and not yet authorised: a permit brings its record as ingest reads it. */
export type ArrivedSettlement = SettlementEnvelope &
  (
    | (Omit<PermitSettlement, 'record'> & { readonly shipped: ShippedRecord })
    | SuspendSettlement
    | LookUpSettlement
  );

const CheckNames = Type.Array(Type.Enum(checkNames), { maxItems: checkNames.length, uniqueItems: true });
const Findings = Type.Array(
  closed({
    pointer: Type.String({ maxLength: limits.piiPointerCharsMax, pattern: '^(?:/[^\\u0000]*)?$' }),
    type: Type.Enum([...piiTypes, 'unscanned']),
  }),
  { maxItems: limits.piiFindingsMax },
);
const Money = Type.Unsafe<MicroUsd>(Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }));
const TokenHash = Type.String({ pattern: '^[0-9a-f]{64}$' });

const bound = {
  sidecar_id: IdOf('side'),
  connection_id: Type.String({ maxLength: 128 }),
  holder: Holder,
  passport_id: IdOf('pass'),
  token_hash: TokenHash,
  gate_id: nullable(IdOf('gate')),
  gate_version: Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }),
  request_hash: Type.String({ pattern: '^sha256:[0-9a-f]{64}$' }),
  idempotency_key: nullable(
    Type.String({ maxLength: limits.idempotencyKeyCharsMax, pattern: '^[^\\u0000]+$' }),
  ),
};

const PermitBody = closed({
  ...bound,
  kind: Type.Literal('permit'),
  record: Type.Unknown(),
  approval_id: nullable(IdOf('appr')),
});

const SuspendBody = closed({
  ...bound,
  kind: Type.Literal('suspend'),
  gate_id: IdOf('gate'),
  approval_id: IdOf('appr'),
  permission_key: nullable(
    Type.Unsafe<PermissionKey>(
      Type.String({ maxLength: permissionCharsMax, pattern: '^[a-z0-9_.-]+:[a-z0-9_.-]+$' }),
    ),
  ),
  amount_micro_usd: nullable(Money),
  constraints_evaluated: CheckNames,
  pii: Findings,
  expires_in_ms: Type.Integer({ minimum: 1, maximum: limits.approvalExpiryMsMax }),
  held: Type.Array(LeaseReturnBody, { maxItems: limits.approvalHoldsMax }),
});

const LookUpBody = closed({
  ...bound,
  kind: Type.Literal('look_up'),
  approval_id: nullable(IdOf('appr')),
});

const readKind = shapeReader(Type.Object({ kind: Type.Enum(['permit', 'suspend', 'look_up']) }));
const readPermit = shapeReader(PermitBody);
const readSuspend = shapeReader(SuspendBody);
const readLookUp = shapeReader(LookUpBody);

/**
 * Reads a call as strictly as ingest reads a record: throws `invalid_request`, naming the field, for an unknown field, a wrong shape, and for
 * members that contradict each other. Whether the sidecar may say it is not looked at. `accountId`: of the key that the call came with.
 */
export function parseSettlementCall(body: unknown, accountId: AccountId): ArrivedSettlement {
  switch (readKind(body).kind) {
    case 'permit':
      return withItsRecord(readPermit(body), accountId);
    case 'suspend':
      return withItsMoney(readSuspend(body));
    case 'look_up':
      return readLookUp(body);
  }
}

function withItsRecord(
  call: SettlementEnvelope & Omit<PermitSettlement, 'record'> & { readonly record?: unknown },
  accountId: AccountId,
): ArrivedSettlement {
  const { record: value, ...rest } = call;
  if (call.idempotency_key === null && call.approval_id === null) {
    throw invalidRequest('idempotency_key', 'A permit is settled for its key, its approval or both.');
  }
  const shipped = parseBatchItem(value, { sidecarId: call.sidecar_id, accountId });
  if (shipped.kind === 'void') throw invalidRequest('record', 'record must be a record.');
  if (shipped.kind === 'malformed') throw invalidRequest('record', `record: ${shipped.message}.`);
  const { record, tokenHash } = shipped;
  const isOfCall =
    record.decision === 'PERMIT' &&
    record.passportId === call.passport_id &&
    tokenHash === call.token_hash &&
    record.gateId === call.gate_id &&
    record.requestHash === call.request_hash;
  if (!isOfCall) throw invalidRequest('record', 'record is not the PERMIT that this call is about.');
  return { ...rest, shipped };
}

/** The windows are those of this passport at this gate, each once and with the whole amount. */
function withItsMoney(call: SettlementEnvelope & SuspendSettlement): ArrivedSettlement {
  const windows = new Set<string>();
  for (const each of call.held) {
    const { kind, gate_id, passport_id, token_hash, window, units } = each;
    // An approval keeps what it is given here, and its end must be able to free it.
    const fault = findReturnFault(each);
    if (fault !== null) throw invalidRequest('held', `held ${fault}.`);
    const isOfGate = kind === 'gate_spend' && gate_id === call.gate_id;
    const isOfPassport = passport_id === call.passport_id && token_hash === call.token_hash;
    const isPlain = isOfGate && passport_id === null && token_hash === null;
    const isOwn = kind === 'passport_spend' && gate_id === null && isOfPassport;
    const name = `${kind} ${window}`;
    if (!(isPlain || (isOfGate && isOfPassport) || isOwn) || windows.has(name)) {
      throw invalidRequest('held', 'held names a window that this request does not draw on, or one twice.');
    }
    if (units !== call.amount_micro_usd)
      throw invalidRequest('held', 'held is not the amount of the request.');
    windows.add(name);
  }
  return call;
}

const First = Type.Object({
  attestation_id: IdOf('att'),
  constraints_evaluated: CheckNames,
  pii: Type.Array(Type.Object({ pointer: Type.String(), type: Type.String() })),
});

const Answer = Type.Union([
  Type.Object({ kind: Type.Literal('committed') }),
  Type.Object({ kind: Type.Literal('replayed'), first: First }),
  Type.Object({ kind: Type.Literal('conflict') }),
  Type.Object({
    kind: Type.Literal('approval'),
    standing: Type.Enum(['none', 'mismatch', ...approvalStatuses]),
    expires_at_ms: nullable(Millis),
  }),
  Type.Object({
    kind: Type.Literal('suspended'),
    approval_id: IdOf('appr'),
    expires_at_ms: Millis,
    is_new: Type.Boolean(),
  }),
  Type.Object({ kind: Type.Literal('pending_exceeded') }),
  Type.Object({ kind: Type.Literal('refused'), message: Type.String() }),
]);

/** Null for everything that is no answer, also for text that is not JSON. Fields that are not known here are passed over. */
export const parseSettlementAnswer = (text: string): SettlementAnswer | null => readAnswer(parseJson(text));

// The annotation makes the compiler compare the schema with its type.
const readAnswer: (value: unknown) => SettlementAnswer | null = readerOf(Answer);
