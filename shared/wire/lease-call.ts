import { Type } from 'typebox';
import { invalidRequest } from '../errors/api-error.ts';
import { must } from '../errors/assert.ts';
import { limits } from '../model/limits.ts';
import { type Counter, counterKey } from '../quota/counter.ts';
import { windowAt, windowNames } from '../quota/window.ts';
import type { LimitKind } from '../quota/window-limit.ts';
import { closed, nullable } from './fields.ts';
import { shapeReader, type Wire } from './shape.ts';
import { IdOf, Millis, parseJson, readerOf } from './sync-schema.ts';

const limitKinds = [
  'gate_rate',
  'gate_spend',
  'passport_rate',
  'passport_spend',
] as const satisfies readonly LimitKind[];

const Units = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER });
/** 32 hex characters, random, so that no two holders have the same. */
export const Holder = Type.String({ pattern: '^[0-9a-f]{32}$' });

const counterFields = {
  kind: Type.Enum(limitKinds),
  gate_id: nullable(IdOf('gate')),
  passport_id: nullable(IdOf('pass')),
  /**
   * Hex SHA-256 of the passport's token where `passport_id` is set: shows that this sidecar has seen the
   * passport.
   */
  token_hash: nullable(Type.String({ pattern: '^[0-9a-f]{64}$' })),
};

/**
 * Which counter. What a limit of a gate counts `per: passport` names both; a passport's own limit names no
 * gate. `findCounterFault` checks what the fields say about each other.
 */
const LeaseCounter = closed(counterFields);
export type LeaseCounter = Wire<typeof LeaseCounter>;

export const windowOfLease = { ...counterFields, window: Type.Enum(windowNames), starts_at_ms: Millis };
/** Units that the holder has not used and will not use. */
export const LeaseReturn = closed({ ...windowOfLease, units: Units });
export type LeaseReturn = Wire<typeof LeaseReturn>;

/**
 * The control plane knows the limit itself: a sidecar that is behind cannot lease past it. The current window
 * is meant.
 */
const LeaseRequest = closed({
  ...counterFields,
  window: Type.Enum(windowNames),
  /**
   * With less than this nothing is granted, because it would not help any request. The smallest need of those
   * who wait; 0 where nobody waits.
   */
  units_min: Units,
  /** What all who wait need together. */
  units_needed: Units,
  /** What will be wanted soon besides. Granted only as far as the window has plenty. */
  units_ahead: Units,
});
export type LeaseRequest = Wire<typeof LeaseRequest>;

/**
 * `POST /v1/sync/leases`: how a sidecar draws on the quota ledger (contract §6; ARCHITECTURE.md, "Quotas").
 * Not a public interface.
 *
 * One call carries all the needs and all the returns that a sidecar has gathered. A holder (one process of a
 * sidecar) numbers its calls from 1 and has one under way: the same number sent again is answered with what
 * it was answered before, so that a call whose outcome is unknown is simply sent again. Answers: 200
 * `LeaseAnswer`; 409 `holder_unknown` where the control plane does not know what this holder was given (its
 * database was restored): the holder then drops all its leases, uses nothing of them any more and begins anew
 * under another name.
 */
const LeaseCall = closed({
  sidecar_id: IdOf('side'),
  connection_id: Type.String({ maxLength: 128 }),
  /** Random per start of the process and again after `holder_unknown`. */
  holder: Holder,
  /**
   * Of the spool in which the records of what this holder takes are found: once that epoch is shipped to its
   * end, what none of them took goes back (`EpochEnd`). Absent: what the holder leaves behind stays counted
   * until its windows end.
   */
  epoch: Type.Optional(Type.String({ pattern: '^[0-9a-f]{32}$' })),
  /** From 1, without holes. */
  seq: Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }),
  /** Each window at most once. */
  returns: Type.Array(LeaseReturn, { maxItems: limits.leasesPerCallMax }),
  /** Each window at most once. */
  asks: Type.Array(LeaseRequest, { maxItems: limits.leasesPerCallMax }),
});
export type LeaseCall = Wire<typeof LeaseCall>;

const readCall = shapeReader(LeaseCall);

/** Reads a call as it arrives at the control plane. Throws `invalid_request` naming the field. */
export function parseLeaseCall(body: unknown): LeaseCall {
  const call: LeaseCall = readCall(body);
  call.returns.forEach((each, place) => {
    const fault = findReturnFault(each);
    if (fault !== null) throw invalidRequest(`returns.${place}`, `returns.${place} ${fault}.`);
  });
  call.asks.forEach((each, place) => {
    const fault = findCounterFault(each);
    if (fault !== null) throw invalidRequest(`asks.${place}`, `asks.${place} ${fault}.`);
    if (each.units_min > each.units_needed) {
      throw invalidRequest(`asks.${place}.units_min`, 'units_min must be at most units_needed.');
    }
  });
  refuseDoubles(
    'returns',
    call.returns.map((each) => `${nameOf(each)} ${each.starts_at_ms}`),
  );
  refuseDoubles('asks', call.asks.map(nameOf));
  return call;
}

/**
 * Why these units of one window cannot be meant; null: they can. For everything that names units which a
 * holder has.
 */
export function findReturnFault(given: Omit<LeaseReturn, 'units'>): string | null {
  const { startsAtMs } = windowAt(given.window, given.starts_at_ms);
  return startsAtMs === given.starts_at_ms
    ? findCounterFault(given)
    : 'has a starts_at_ms at which no window of this length begins';
}

function findCounterFault({ kind, gate_id, passport_id, token_hash }: LeaseCounter): string | null {
  const isOfGate = kind === 'gate_rate' || kind === 'gate_spend';
  if ((gate_id !== null) !== isOfGate)
    return 'must have a gate_id if the limit is a limit of a gate, and only then';
  if (!isOfGate && passport_id === null) return 'must have the passport_id whose limit it is';
  return (passport_id === null) === (token_hash === null)
    ? null
    : 'must have passport_id and token_hash together, or neither';
}

const nameOf = (of: LeaseCounter & { readonly window: string }): string =>
  `${counterKey(counterOfLease(of))} ${of.window}`;

function refuseDoubles(param: string, names: readonly string[]): void {
  if (new Set(names).size < names.length) throw invalidRequest(param, `${param} has the same window twice.`);
}

/** Only for counters as `parseLeaseCall` lets them through: each kind has the ids that it needs. */
export function counterOfLease({ kind, gate_id: gateId, passport_id: passportId }: LeaseCounter): Counter {
  switch (kind) {
    case 'gate_rate':
    case 'gate_spend':
      return { kind, gateId: must(gateId, 'a counter of a gate names it'), passportId };
    case 'passport_rate':
    case 'passport_spend':
      return { kind, passportId: must(passportId, 'a counter of a passport names it') };
  }
}

const LeaseGrantBody = Type.Object({
  /**
   * The number by which records name this lease (`SpooledRecord.took`): one for each holder and calendar
   * window. Absent where nothing was ever granted.
   */
  lease_id: Type.Optional(Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER })),
  /**
   * 0 where less than `units_min` is left, or where there is no such limit (any more). Below `units_needed`:
   * no more is left.
   */
  granted: Units,
  /** The limit in force at the control plane; null: there is none. */
  limit: nullable(Units),
  /** All units given out in the window, those granted here included. */
  leased: Units,
  /**
   * Where less than `units_needed` was granted: the part of `leased` that other holders were lent and no
   * record used.
   */
  lent: Type.Optional(Units),
  starts_at_ms: Millis,
  ends_at_ms: Millis,
  /**
   * By the grantor's clock, when it answered: a repeat of the call is answered with the new value. The holder
   * counts it down on its monotonic clock from the moment it sent the attempt that was answered.
   */
  left_ms: Units,
});
export type LeaseGrantBody = Wire<typeof LeaseGrantBody>;

/** `grants` in the order of the asks. */
const LeaseAnswer = Type.Object({
  grants: Type.Array(LeaseGrantBody, { maxItems: limits.leasesPerCallMax }),
});
export type LeaseAnswer = Wire<typeof LeaseAnswer>;

/**
 * What a call was answered; null: nothing that means anything to the holder, which then sends the same call
 * again.
 */
export type LeaseOutcome =
  | { readonly kind: 'granted'; readonly answer: LeaseAnswer }
  /** Leases of this holder count for nothing any more. */
  | { readonly kind: 'holder_unknown' }
  /** As for every call of a sidecar: a newer process has taken its place, or it has to connect anew. */
  | { readonly kind: 'superseded' }
  | { readonly kind: 'reconnect' };

/** Fields that are not named here are passed over: the control plane may be one minor version ahead. */
export function parseLeaseOutcome(status: number, text: string): LeaseOutcome | null {
  const body = parseJson(text);
  const answer = status === 200 ? readAnswer(body) : null;
  if (answer !== null) return { kind: 'granted', answer };
  switch (status === 409 ? readRefusal(body)?.error.code : undefined) {
    case 'holder_unknown':
      return { kind: 'holder_unknown' };
    case 'connection_superseded':
      return { kind: 'superseded' };
    case 'connection_unknown':
      return { kind: 'reconnect' };
    default:
      return null;
  }
}

const readAnswer = readerOf(LeaseAnswer);
const readRefusal = readerOf(
  Type.Object({
    error: Type.Object({
      code: Type.Enum(['holder_unknown', 'connection_superseded', 'connection_unknown']),
    }),
  }),
);
