import { Type } from 'typebox';
import { invalidRequest } from '../../errors/api-error.ts';
import { must } from '../../errors/assert.ts';
import type { IdDigest } from '../../model/id-digest.ts';
import { limits } from '../../model/limits.ts';
import { type WalletLane, walletDepthMax } from '../../model/wallet.ts';
import { type Counter, counterKey } from '../../quota/counter.ts';
import { windowAt, windowNames } from '../../quota/window.ts';
import { closed, nullable } from '../api/fields.ts';
import { shapeReader, type Wire } from '../api/shape.ts';
import { IdOf, Millis, parseJson, readerOf } from './sync-schema.ts';

const leasedKinds = [
  'gate_rate',
  'gate_spend',
  'passport_rate',
  'passport_spend',
  'standing_approval',
  'wallet_rate',
  'wallet_spend',
] as const satisfies readonly Counter['kind'][];

const Units = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER });
/** 32 hex characters, random, so that no two holders have the same. */
export const Holder = Type.String({ pattern: '^[0-9a-f]{32}$' });

const TokenHash = Type.String({ pattern: '^[0-9a-f]{64}$' });

const counterFields = {
  kind: Type.Enum(leasedKinds),
  gate_id: nullable(IdOf('gate')),
  passport_id: nullable(IdOf('pass')),
  /**
   * Hex SHA-256 of the passport's token where `passport_id` is set: shows that this sidecar has seen the
   * passport.
   */
  token_hash: nullable(TokenHash),
  /** Of `standing_approval`, and then the window is `total`; absent otherwise. */
  standing_approval_id: Type.Optional(IdOf('sappr')),
  /**
   * Of a wallet: its key and the lane, which tell another account nothing. `passport_id` is then one that
   * draws on it.
   */
  wallet: Type.Optional(Type.String({ pattern: '^[\\w-]{22}:(?:pot|[\\w-]{22})$' })),
  /** Of a gate's limit that counts for each user: whose (`userKeyOf`). Not known to version 0.3.0. */
  user: Type.Optional(Type.Unsafe<IdDigest>(Type.String({ pattern: '^[\\w-]{22}$' }))),
};

/**
 * Which counter. A gate's limit with `per: passport` names both ids, with `per: user` gate and user, and both
 * ids where there is none; a passport's own limit names no gate.
 * `findCounterFault` checks the consistency of the fields.
 */
const LeaseCounter = closed(counterFields);
export type LeaseCounter = Wire<typeof LeaseCounter>;

export const windowOfLease = { ...counterFields, window: Type.Enum(windowNames), starts_at_ms: Millis };
/** Unused units that the holder gives up. */
export const LeaseReturn = closed({ ...windowOfLease, units: Units });
export type LeaseReturn = Wire<typeof LeaseReturn>;

/**
 * For the current window. The control plane knows the limit itself, so a stale sidecar cannot lease past it.
 */
const LeaseRequest = closed({
  ...counterFields,
  window: Type.Enum(windowNames),
  /**
   * Nothing is granted below this, because it would help no request: the smallest need among the waiters, 0
   * without waiters.
   */
  units_min: Units,
  /** The sum of the waiters' needs. */
  units_needed: Units,
  /** Units for requests to come. Granted only while the window has plenty. */
  units_ahead: Units,
});
export type LeaseRequest = Wire<typeof LeaseRequest>;

/**
 * `POST /v1/sync/leases`: how a sidecar draws on the quota ledger (contract §6; ARCHITECTURE.md, "Quotas").
 * Not a public interface.
 *
 * One call carries all needs and returns that a sidecar has gathered. A holder (one process of a sidecar)
 * numbers its calls from 1 and has one in flight. A repeated number gets the first answer again, so a call
 * with an unknown outcome is simply retried. Answers: 200 `LeaseAnswer`; 409 `holder_unknown` if the control
 * plane does not know the holder's leases (its database was restored): the holder then drops all its leases,
 * and begins again under another name.
 */
const LeaseCall = closed({
  sidecar_id: IdOf('side'),
  connection_id: Type.String({ maxLength: 128 }),
  /** Random per start of the process and again after `holder_unknown`. */
  holder: Holder,
  /**
   * The epoch of the spool that holds this holder's records: once it is shipped to its end, leased units that
   * no record took go back (`EpochEnd`). Absent: the holder's unused units stay counted until their windows
   * end.
   */
  epoch: Type.Optional(Type.String({ pattern: '^[0-9a-f]{32}$' })),
  /** From 1, without holes. */
  seq: Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }),
  /** Each window at most once. */
  returns: Type.Array(LeaseReturn, { maxItems: limits.leasesPerCallMax }),
  /** Each window at most once. */
  asks: Type.Array(LeaseRequest, { maxItems: limits.leasesPerCallMax }),
  /** Passports whose wallets it asks for. Not known to version 0.2.0, which refuses the call. */
  wallets: Type.Optional(
    Type.Array(closed({ passport_id: IdOf('pass'), token_hash: TokenHash }), {
      maxItems: limits.leasesPerCallMax,
    }),
  ),
});
export type LeaseCall = Wire<typeof LeaseCall>;

const readCall = shapeReader(LeaseCall);

/** Reads a call at the control plane. Throws `invalid_request` naming the field. */
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

/** Why units of a holder do not name a possible window; null: they do. */
export function findReturnFault(given: Omit<LeaseReturn, 'units'>): string | null {
  const { startsAtMs } = windowAt(given.window, given.starts_at_ms);
  return startsAtMs === given.starts_at_ms
    ? findCounterFault(given)
    : 'has a starts_at_ms at which no window of this length begins';
}

function findCounterFault({
  kind,
  gate_id,
  passport_id,
  token_hash,
  standing_approval_id: standingId,
  wallet,
  user,
  window,
}: LeaseCounter & Pick<LeaseRequest, 'window'>): string | null {
  if (user !== undefined && ((kind !== 'gate_rate' && kind !== 'gate_spend') || passport_id !== null))
    return 'must have a user for the limit of a gate alone, and no passport_id with it';
  const isOfWallet = kind === 'wallet_rate' || kind === 'wallet_spend';
  if ((wallet !== undefined) !== isOfWallet) return 'must have a wallet for the limit of one, and only then';
  if (isOfWallet)
    return gate_id === null && passport_id !== null && token_hash !== null && standingId === undefined
      ? null
      : 'must have the passport_id and token_hash of a passport in the wallet, and no gate_id';
  const isStanding = kind === 'standing_approval';
  if ((standingId !== undefined) !== isStanding || (window === 'total') !== isStanding)
    return 'must have a standing_approval_id and the window total for a standing approval, and only then';
  if (isStanding)
    return gate_id !== null && passport_id === null && token_hash === null
      ? null
      : 'must have the gate_id of its standing approval, and no passport_id';
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

/** Only for counters that passed `parseLeaseCall`: each kind has the ids it needs. */
export function counterOfLease(of: LeaseCounter): Counter {
  const { kind, gate_id: gateId, passport_id: passportId, standing_approval_id: standingId } = of;
  switch (kind) {
    case 'gate_rate':
    case 'gate_spend':
      return {
        ...{ kind, gateId: must(gateId, 'a counter of a gate names it'), passportId },
        ...(of.user !== undefined && { user: of.user }),
      };
    case 'passport_rate':
    case 'passport_spend':
      return { kind, passportId: must(passportId, 'a counter of a passport names it') };
    case 'standing_approval':
      return {
        kind,
        gateId: must(gateId, 'a counter of a standing approval names its gate'),
        standingApprovalId: must(standingId, 'a counter of a standing approval names it'),
      };
    case 'wallet_rate':
    case 'wallet_spend':
      return { kind, ...laneOf(must(of.wallet, 'a counter of a wallet names it')) };
  }
}

/** A lane of a wallet, as lease calls name it. */
export const renderLane = (wallet: IdDigest, lane: WalletLane): string => `${wallet}:${lane}`;

export function laneOf(text: string): { readonly wallet: IdDigest; readonly lane: WalletLane } {
  const [wallet = '', lane = ''] = text.split(':');
  return { wallet: wallet as IdDigest, lane: lane as WalletLane };
}

const LeaseGrantBody = Type.Object({
  /**
   * The number by which records name this lease (`SpooledRecord.took`), one per holder and calendar window.
   * Absent if nothing was ever granted.
   */
  lease_id: Type.Optional(Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER })),
  /**
   * 0 if less than `units_min` is left, or the limit does not exist (any more). Below `units_needed`: no more
   * is left.
   */
  granted: Units,
  /** The limit in force at the control plane; null: none. */
  limit: nullable(Units),
  /** All units given out in the window, including this grant. */
  leased: Units,
  /**
   * If less than `units_needed` was granted: the part of `leased` that is lent to other holders and used by
   * no record.
   */
  lent: Type.Optional(Units),
  starts_at_ms: Millis,
  ends_at_ms: Millis,
  /**
   * By the grantor's clock at the time of the answer: a retry gets a new value. The holder counts it down on
   * its monotonic clock from the moment it sent the answered attempt.
   */
  left_ms: Units,
});
export type LeaseGrantBody = Wire<typeof LeaseGrantBody>;

/** A wallet of a passport. */
const WalletLevel = Type.Object({
  key: Type.Unsafe<IdDigest>(Type.String({ maxLength: 64 })),
  /** Absent: of another account than that of the sidecar. */
  wallet_id: Type.Optional(IdOf('wal')),
  frozen: Type.Boolean(),
  windows: Type.Array(
    Type.Object({
      kind: Type.Enum(['wallet_rate', 'wallet_spend']),
      window: Type.Enum(windowNames),
      lane: Type.Unsafe<WalletLane>(Type.String({ maxLength: 64 })),
      /** Of the lane. Absent: of another account. */
      limit: Type.Optional(Units),
    }),
  ),
});
export type WalletLevel = Wire<typeof WalletLevel>;

/** `grants` in the order of the asks; `wallets` in that of the passports asked for. */
const LeaseAnswer = Type.Object({
  /** From its own wallet up to the root; empty: it is in none. Null: there is no such passport. */
  wallets: Type.Optional(
    Type.Array(nullable(Type.Array(WalletLevel, { maxItems: walletDepthMax })), {
      maxItems: limits.leasesPerCallMax,
    }),
  ),
  grants: Type.Array(LeaseGrantBody, { maxItems: limits.leasesPerCallMax }),
});
export type LeaseAnswer = Wire<typeof LeaseAnswer>;

/** The answer to a call. */
export type LeaseOutcome =
  | { readonly kind: 'granted'; readonly answer: LeaseAnswer }
  /** The leases of this holder are void. */
  | { readonly kind: 'holder_unknown' }
  /** As for every call of a sidecar: a newer process has taken its place, or it has to reconnect. */
  | { readonly kind: 'superseded' }
  | { readonly kind: 'reconnect' };

/**
 * Null: no usable answer; the holder retries the same call. Unknown fields are ignored: the control plane may
 * be one minor version ahead.
 */
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
