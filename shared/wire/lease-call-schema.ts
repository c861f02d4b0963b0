import { Type } from 'typebox';
import { invalidRequest } from '../errors/api-error.ts';
import { limits } from '../model/limits.ts';
import { counterKey } from '../quota/counter.ts';
import { windowAt, windowNames } from '../quota/window.ts';
import type { LimitKind } from '../quota/window-limit.ts';
import { closed, nullable } from './fields.ts';
import { counterOfLease, type LeaseAnswer, type LeaseCall, type LeaseCounter } from './lease-call.ts';
import { shapeReader } from './shape.ts';
import { IdOf, Millis, parseJson, readerOf } from './sync-schema.ts';

const limitKinds = [
  'gate_rate',
  'gate_spend',
  'passport_rate',
  'passport_spend',
] as const satisfies readonly LimitKind[];

const Units = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER });
/** 32 hex characters: made of chance, so that no two holders have the same. */
export const Holder = Type.String({ pattern: '^[0-9a-f]{32}$' });

const counter = {
  kind: Type.Enum(limitKinds),
  gate_id: nullable(IdOf('gate')),
  passport_id: nullable(IdOf('pass')),
  token_hash: nullable(Type.String({ pattern: '^[0-9a-f]{64}$' })),
};

/** The shape alone: `findCounterFault` says what its fields have to say about each other. */
export const windowOfLease = { ...counter, window: Type.Enum(windowNames), starts_at_ms: Millis };
export const LeaseReturnBody = closed({ ...windowOfLease, units: Units });

const LeaseRequestBody = closed({
  ...counter,
  window: Type.Enum(windowNames),
  units_min: Units,
  units_needed: Units,
  units_ahead: Units,
});

const readCall = shapeReader(
  closed({
    sidecar_id: IdOf('side'),
    connection_id: Type.String({ maxLength: 128 }),
    holder: Holder,
    epoch: Type.Optional(Type.String({ pattern: '^[0-9a-f]{32}$' })),
    seq: Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }),
    returns: Type.Array(LeaseReturnBody, { maxItems: limits.leasesPerCallMax }),
    asks: Type.Array(LeaseRequestBody, { maxItems: limits.leasesPerCallMax }),
  }),
);

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
export function findReturnFault(given: LeaseCall['returns'][number]): string | null {
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
  const answer: LeaseAnswer | null = status === 200 ? readAnswer(body) : null;
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

const Grant = Type.Object({
  lease_id: Type.Optional(Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER })),
  granted: Units,
  limit: nullable(Units),
  leased: Units,
  starts_at_ms: Millis,
  ends_at_ms: Millis,
  left_ms: Units,
});
const readAnswer = readerOf(
  Type.Object({ grants: Type.Array(Grant, { maxItems: limits.leasesPerCallMax }) }),
);
const readRefusal = readerOf(
  Type.Object({
    error: Type.Object({
      code: Type.Enum(['holder_unknown', 'connection_superseded', 'connection_unknown']),
    }),
  }),
);
