import { Type } from 'typebox';
import { overrulingReasons } from '../../decision/overruled.ts';
import type { FirstPermit } from '../../decision/run.ts';
import { ApiError, invalidRequest } from '../../errors/api-error.ts';
import { approvalStatuses } from '../../model/approval.ts';
import type { PiiFinding } from '../../model/attestation.ts';
import { piiTypes } from '../../model/constraints.ts';
import { checkNames } from '../../model/decision.ts';
import type { AccountId } from '../../model/ids.ts';
import { limits } from '../../model/limits.ts';
import type { MicroUsd } from '../../model/money.ts';
import { type PermissionKey, permissionCharsMax } from '../../model/permission.ts';
import { counterKey, isMoney } from '../../quota/counter.ts';
import { DisplayInTransit } from '../api/display.ts';
import { closed, nullable } from '../api/fields.ts';
import { shapeReader, type Wire } from '../api/shape.ts';
import { CarriedAnswer, ConditionId } from '../evidence/carried-members.ts';
import {
  type Malformed,
  parseBatchItem,
  type RecordSource,
  type ShippedRecord,
} from './attestation-batch.ts';
import { counterOfLease, findReturnFault, Holder, LeaseReturn, windowOfLease } from './lease-call.ts';
import type { SpooledRecord } from './sync.ts';
import { IdOf, Millis, parseJson, readerOf } from './sync-schema.ts';

/**
 * `POST /v1/sync/settlements`: a sidecar's requests that must be settled before they are answered, all of one
 * event-loop turn in one call. Not a public interface. Three kinds:
 *
 *   permit    a PERMIT with an idempotency key, an approval, or both: claims the key, consumes the approval
 *             and appends the record (contract §5 and §8). The committed settlement is the record; the
 *             sidecar does not spool it.
 *   suspend   a SUSPEND: opens an approval that holds the money, or finds the one that is pending for the
 *             same request already.
 *   look_up   what is known of a presented approval, of a key, and of a pending approval of the same request.
 *
 * Permits and look-ups of a call commit in one transaction, its suspends in the next. Each stands alone: a
 * refused one does not affect the others. A permit is identified by its record's id, a suspend by its
 * approval_id; a retry gets the first answer. If a settlement did not commit, or its outcome is unknown, the
 * sidecar writes a SettlementVoid to its spool before it answers its client, because the call may be
 * delivered again.
 */
const CallEnvelope = closed({
  sidecar_id: IdOf('side'),
  connection_id: Type.String({ maxLength: 128 }),
  /** The holder of the units in `held`, as in LeaseCall. */
  holder: Holder,
  /** Present if a record is in form 2, as in AttestationBatch. */
  form: Type.Optional(Type.Literal(2)),
  settlements: Type.Array(Type.Unknown(), { minItems: 1, maxItems: limits.settlementsPerCallMax }),
});
type CallWith<Each> = Omit<Wire<typeof CallEnvelope>, 'settlements'> & {
  readonly settlements: readonly Each[];
};
export type SettlementCall = CallWith<Settlement>;
export type Settlement = PermitSettlement | SuspendSettlement | LookUpSettlement;

/** A call at the control plane, well formed and not yet authorised. */
export type ArrivedCall = CallWith<ArrivedSettlement>;
/** A malformed one does not affect the others in its call. */
export type ArrivedSettlement = ArrivedPermit | SuspendSettlement | LookUpSettlement | Malformed;

const CheckNames = Type.Array(Type.Enum(checkNames), { maxItems: checkNames.length, uniqueItems: true });
const Findings = Type.Array(
  Type.Unsafe<PiiFinding>(
    closed({
      pointer: Type.String({ maxLength: limits.piiPointerCharsMax, pattern: '^(?:/[^\\u0000]*)?$' }),
      type: Type.Enum([...piiTypes, 'unscanned']),
    }),
  ),
  { maxItems: limits.piiFindingsMax },
);
const Money = Type.Unsafe<MicroUsd>(Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }));
const TokenHash = Type.String({ pattern: '^[0-9a-f]{64}$' });

/** The request that a key or an approval is bound to. */
const settledRequest = {
  /**
   * How long the answer is of use, in milliseconds from the sending of the call. After that it is not started
   * (`late`).
   */
  wanted_ms: Type.Integer({ minimum: 0, maximum: limits.decisionDeadlineMs }),
  passport_id: IdOf('pass'),
  token_hash: TokenHash,
  /** Null: `/enforce` without a gate, to which an idempotency key may be bound but no approval. */
  gate_id: nullable(IdOf('gate')),
  /** Version of the gate's policy, to which an approval is bound. 0 without a gate. */
  gate_version: Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }),
  request_hash: Type.String({ pattern: '^sha256:[0-9a-f]{64}$' }),
  idempotency_key: nullable(
    Type.String({ maxLength: limits.idempotencyKeyCharsMax, pattern: '^[^\\u0000]+$' }),
  ),
  /**
   * Made by the sidecar for this settlement alone. A finding about another request (`replayed`, or
   * `suspended` that is not new) keeps that request true until the sidecar voids this id, which it does if it
   * gave its client another answer.
   */
  reader_id: IdOf('att'),
  /** For whom the token says that its agent acts. Of issuers of others alone. */
  user: Type.Optional(Type.String({ minLength: 1, maxLength: limits.userCharsMax })),
};
const SettledRequest = closed(settledRequest);
export type SettledRequest = Wire<typeof SettledRequest>;

const PermitSettlement = closed({
  ...settledRequest,
  kind: Type.Literal('permit'),
  /** Of the decision PERMIT. It names the leases that the charge was taken from. */
  record: Type.Unsafe<SpooledRecord>(Type.Unknown()),
  approval_id: nullable(IdOf('appr')),
});
export type PermitSettlement = Wire<typeof PermitSettlement>;
/** A permit with its record, as ingest reads it. */
export type ArrivedPermit = Omit<PermitSettlement, 'record'> & { readonly shipped: ShippedRecord };

const SuspendSettlement = closed({
  ...settledRequest,
  kind: Type.Literal('suspend'),
  gate_id: IdOf('gate'),
  /** Made by the sidecar. */
  approval_id: IdOf('appr'),
  permission_key: nullable(
    Type.Unsafe<PermissionKey>(
      Type.String({ maxLength: permissionCharsMax, pattern: '^[a-z0-9_.-]+:[a-z0-9_.-]+$' }),
    ),
  ),
  amount_micro_usd: nullable(Money),
  /** Absent: none. Without the personal data that the gate redacts. */
  display: Type.Optional(DisplayInTransit),
  /**
   * The key that asked; null: none, so the sidecar's own counts. Absent where its gate does not want to know
   * (`names_asker`), and from a sidecar of 0.2.0.
   */
  asked_by: Type.Optional(nullable(IdOf('key'))),
  /** Whom the token names, which another token of the subject may not. Of issuers of others alone. */
  owner: Type.Optional(Type.String({ minLength: 1, maxLength: limits.ownerCharsMax })),
  constraints_evaluated: CheckNames,
  /** What the shadow of the gate says. Absent: it has none. */
  shadow: CarriedAnswer.properties.shadow,
  /** That failed, and for which a person is asked. Absent: there are none to ask. */
  conditions: Type.Optional(Type.Array(ConditionId, { maxItems: limits.carriedConditionsMax })),
  pii: Findings,
  expires_in_ms: Type.Integer({ minimum: 1, maximum: limits.approvalExpiryMsMax }),
  /**
   * Money that the sidecar took from its leases, `amount_micro_usd` of each window. It passes to the
   * approval, which frees it at its end.
   */
  held: Type.Array(LeaseReturn, { maxItems: limits.approvalHoldsMax }),
});
export type SuspendSettlement = Wire<typeof SuspendSettlement>;

/** A window of the ledger, named by counter and start. */
const WindowInNeed = closed({
  ...windowOfLease,
  /**
   * The window has enough for the request if at most this much is given out. Of a wallet, whose limit a
   * sidecar may not know: less that limit, so the units that lack, negative.
   */
  leased_max: Type.Integer({ minimum: -Number.MAX_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER }),
});
export type WindowInNeed = Wire<typeof WindowInNeed>;

const LookUpSettlement = closed({
  ...settledRequest,
  kind: Type.Literal('look_up'),
  approval_id: nullable(IdOf('appr')),
  /** The windows with too little left for the request. */
  short: Type.Array(WindowInNeed, { maxItems: limits.settlementHeldMax }),
});
export type LookUpSettlement = Wire<typeof LookUpSettlement>;

const readEnvelope = shapeReader(CallEnvelope);
const readKind = shapeReader(Type.Object({ kind: Type.Enum(['permit', 'suspend', 'look_up']) }));
const readPermit = shapeReader(PermitSettlement);
const readSuspend = shapeReader(SuspendSettlement);
const readLookUp = shapeReader(LookUpSettlement);

/**
 * Reads a call as strictly as ingest reads a record: unknown fields, wrong shapes and contradictions are
 * `malformed`. Authorisation is not checked. Throws `invalid_request`, naming the field, for faults of the
 * envelope. `accountId`: of the caller's key.
 */
export function parseSettlementCall(body: unknown, accountId: AccountId): ArrivedCall {
  const { settlements, ...envelope } = readEnvelope(body);
  const source = { sidecarId: envelope.sidecar_id, accountId };
  return { ...envelope, settlements: settlements.map((each) => readSettlement(each, source)) };
}

function readSettlement(body: unknown, source: RecordSource): ArrivedSettlement {
  try {
    return parseSettlement(body, source);
  } catch (error) {
    if (error instanceof ApiError) return { kind: 'malformed', message: error.message };
    throw error;
  }
}

function parseSettlement(body: unknown, source: RecordSource): ArrivedSettlement {
  switch (readKind(body).kind) {
    case 'permit':
      return withItsRecord(readPermit(body), source);
    case 'suspend':
      return withItsMoney(readSuspend(body));
    case 'look_up':
      return withItsWindows(readLookUp(body));
  }
}

function withItsRecord(permit: PermitSettlement, source: RecordSource): ArrivedPermit {
  const { record: value, ...rest } = permit;
  if (permit.idempotency_key === null && permit.approval_id === null) {
    throw invalidRequest('idempotency_key', 'A permit has an idempotency_key, an approval_id or both.');
  }
  const shipped = parseBatchItem(value, source);
  if (shipped.kind === 'malformed') throw invalidRequest('record', `record: ${shipped.message}.`);
  if (shipped.kind !== 'record') throw invalidRequest('record', 'record must be a record.');
  const { record, tokenHash } = shipped;
  const isOfPermit =
    record.decision === 'PERMIT' &&
    record.passportId === permit.passport_id &&
    tokenHash === permit.token_hash &&
    record.gateId === permit.gate_id &&
    record.requestHash === permit.request_hash;
  if (!isOfPermit) throw invalidRequest('record', 'record is not the PERMIT that this settlement is about.');
  // The record of a sidecar does not say what it is settled with.
  return { ...rest, shipped: { ...shipped, record: { ...record, approvalId: permit.approval_id } } };
}

/** Only windows that this request draws on: an answer about others' windows would reveal their usage. */
function withItsWindows(lookUp: LookUpSettlement): LookUpSettlement {
  for (const each of lookUp.short) {
    const fault = findReturnFault(each);
    if (fault !== null) throw invalidRequest('short', `short ${fault}.`);
    if (!isDrawnOn(each, lookUp))
      throw invalidRequest('short', 'short names a window that this request does not draw on.');
  }
  return lookUp;
}

/** A window of the passport or one of its wallets, or of the gate for all passports or this one. */
function isDrawnOn(
  { gate_id, passport_id, token_hash }: Omit<WindowInNeed, 'leased_max'>,
  by: Pick<SettledRequest, 'gate_id' | 'passport_id' | 'token_hash'>,
): boolean {
  if (gate_id !== null && gate_id !== by.gate_id) return false;
  const isOfPassport = passport_id === by.passport_id && token_hash === by.token_hash;
  return isOfPassport || (gate_id !== null && passport_id === null && token_hash === null);
}

/** The windows of this passport at this gate, and of its wallets, each once and with the whole amount. */
function withItsMoney(suspend: SuspendSettlement): SuspendSettlement {
  const windows = new Set<string>();
  for (const each of suspend.held) {
    const { window, units } = each;
    // The approval stores these windows, and its end must be able to free them.
    const fault = findReturnFault(each);
    if (fault !== null) throw invalidRequest('held', `held ${fault}.`);
    const counter = counterKey(counterOfLease(each));
    const name = `${counter} ${window}`;
    const mayBeHeld = isMoney(counter) && each.kind !== 'standing_approval';
    if (!mayBeHeld || !isDrawnOn(each, suspend) || windows.has(name)) {
      throw invalidRequest('held', 'held names a window that this request does not draw on, or one twice.');
    }
    if (units !== suspend.amount_micro_usd)
      throw invalidRequest('held', 'held is not the amount of the request.');
    windows.add(name);
  }
  return suspend;
}

/** The first PERMIT under an idempotency key, as answered. */
const FirstPermitBody = Type.Object({
  attestation_id: IdOf('att'),
  constraints_evaluated: CheckNames,
  pii: Type.Array(Type.Object({ pointer: Type.String(), type: Type.String() })),
  /** Absent: its amount was not held. Ignored by 0.2.0, whose requests hold nothing. */
  hold: Type.Optional(Type.Object({ amount_micro_usd: Money, expires_at_ms: Millis })),
});
export type FirstPermitBody = Wire<typeof FirstPermitBody>;

export const firstPermitOf = (body: FirstPermitBody): FirstPermit => ({
  attestationId: body.attestation_id,
  constraintsEvaluated: body.constraints_evaluated,
  pii: body.pii,
  hold:
    body.hold === undefined
      ? null
      : { amountMicroUsd: body.hold.amount_micro_usd, expiresAtMs: body.hold.expires_at_ms },
});

export const firstPermitBody = (first: FirstPermit): FirstPermitBody => ({
  attestation_id: first.attestationId,
  constraints_evaluated: first.constraintsEvaluated,
  pii: first.pii,
  ...(first.hold === null
    ? {}
    : { hold: { amount_micro_usd: first.hold.amountMicroUsd, expires_at_ms: first.hold.expiresAtMs } }),
});

/**
 * True: neither the settlement nor its reading takes effect, however often the call is delivered again (a
 * reading that found something does). Its reserved units can be given back at once. Absent: false.
 */
const closedForGood = { is_closed: Type.Optional(Type.Boolean()) };

const SettlementAnswer = Type.Union([
  /** permit: committed, by this call or by an earlier one with the same record. */
  Type.Object({ kind: Type.Literal('committed') }),
  /**
   * All kinds: the key belongs to this earlier PERMIT of the same request. Nothing of this settlement was
   * taken.
   */
  Type.Object({ kind: Type.Literal('replayed'), first: FirstPermitBody, ...closedForGood }),
  /** All kinds: the key belongs to another request. Nothing of this settlement was taken. */
  Type.Object({ kind: Type.Literal('conflict'), ...closedForGood }),
  /**
   * look_up: nothing is known. `may_change`: a `short` window has enough again, or a holder has units of one
   * that it has neither used on record nor returned yet.
   */
  Type.Object({ kind: Type.Literal('none'), may_change: Type.Boolean() }),
  /**
   * look_up: the state of the presented approval. permit: why it could not be consumed; nothing was taken.
   * `expires_at_ms` if the approval exists.
   */
  Type.Object({
    kind: Type.Literal('approval'),
    standing: Type.Enum(['mismatch', ...approvalStatuses]),
    expires_at_ms: nullable(Millis),
    ...closedForGood,
  }),
  /**
   * suspend: the approval that waits. `is_new` false: an earlier approval of the same request; the money of
   * this settlement was not taken. look_up without an approval: the same request waits already, so this one
   * needs no money (contract §8); `is_new` is false.
   */
  Type.Object({
    kind: Type.Literal('suspended'),
    approval_id: IdOf('appr'),
    expires_at_ms: Millis,
    is_new: Type.Boolean(),
  }),
  /** The database knows a reason to block that the sidecar has not applied yet. Nothing was taken. */
  Type.Object({
    kind: Type.Literal('blocked'),
    reason: Type.Enum(overrulingReasons),
    ...closedForGood,
  }),
  /** It waited longer than `wanted_ms` and was not started. */
  Type.Object({ kind: Type.Literal('late') }),
  /** Voided before it arrived. */
  Type.Object({ kind: Type.Literal('voided') }),
  /**
   * This sidecar may not make the settlement, or not any more, for example because the gate has changed.
   * Nothing was taken. `is_passing`: the cause is temporary; the request may be settled when decided again.
   */
  Type.Object({
    kind: Type.Literal('refused'),
    message: Type.String(),
    is_passing: Type.Optional(Type.Boolean()),
    ...closedForGood,
  }),
]);
export type SettlementAnswer = Wire<typeof SettlementAnswer>;

/** In the order of the settlements. */
const SettlementCallAnswer = Type.Object({
  answers: Type.Array(SettlementAnswer, { maxItems: limits.settlementsPerCallMax }),
});
export type SettlementCallAnswer = Wire<typeof SettlementCallAnswer>;

const readAnswer = readerOf(SettlementCallAnswer);

/** Null for anything but an answer, also for text that is not JSON. Unknown fields are ignored. */
export const parseSettlementAnswer = (text: string): SettlementCallAnswer | null =>
  readAnswer(parseJson(text));
