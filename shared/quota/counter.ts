import type { Branded } from '../model/brand.ts';
import type { IdDigest } from '../model/id-digest.ts';
import { type AccountId, type GateId, isId, type PassportId, type StandingApprovalId } from '../model/ids.ts';
import type { WalletLane } from '../model/wallet.ts';

/**
 * What is counted, and for which owner. Plan and rate count requests, spend counts micro-USD; a counter's
 * unit never changes, so the ledger need not know it. The owner comes from the API key, the gate or the
 * verified passport, never from a body (contract §5).
 */
export type Counter =
  | { readonly kind: 'plan'; readonly accountId: AccountId }
  /** A limit of a gate; with a passport or a user (`userKeyOf`) if the limit is counted for each. */
  | {
      readonly kind: 'gate_rate' | 'gate_spend';
      readonly gateId: GateId;
      readonly passportId: PassportId | null;
      readonly user?: IdDigest;
    }
  /** A passport's own limit, across all gates. */
  | { readonly kind: 'passport_rate' | 'passport_spend'; readonly passportId: PassportId }
  /** The total of a standing approval at its gate. */
  | {
      readonly kind: 'standing_approval';
      readonly gateId: GateId;
      readonly standingApprovalId: StandingApprovalId;
    }
  /** A lane of a wallet: its pot, or what one of its children has set aside. */
  | {
      readonly kind: 'wallet_rate' | 'wallet_spend';
      readonly wallet: IdDigest;
      readonly lane: WalletLane;
    };

/** The name of a counter in the ledger. */
export type CounterKey = Branded<string, 'CounterKey'>;

/**
 * `<kind>:<owner>`, or `<kind>:<gate>:<passport>`, or `<kind>:<gate>:user_<digest>`. Ids contain no colon, so
 * two counters never share a key, and no passport's begins as a user's. A
 * standing approval is spelled as money of its gate: so control planes of 0.2.0 post what its PERMITs took. A
 * lane of a wallet is `<kind>:<wallet>:<lane>`, and the counter of the wallet, its base, `<kind>:<wallet>`.
 */
export function counterKey(counter: Counter): CounterKey {
  switch (counter.kind) {
    case 'plan':
      return `plan:${counter.accountId}` as CounterKey;
    case 'gate_rate':
    case 'gate_spend': {
      const ofGate = `${counter.kind}:${counter.gateId}`;
      if (counter.user !== undefined) return `${ofGate}:${userPart}${counter.user}` as CounterKey;
      return (counter.passportId === null ? ofGate : `${ofGate}:${counter.passportId}`) as CounterKey;
    }
    case 'passport_rate':
    case 'passport_spend':
      return `${counter.kind}:${counter.passportId}` as CounterKey;
    case 'standing_approval':
      return `gate_spend:${counter.gateId}:${counter.standingApprovalId}` as CounterKey;
    case 'wallet_rate':
    case 'wallet_spend':
      return `${counter.kind}:${counter.wallet}:${counter.lane}` as CounterKey;
  }
}

const userPart = 'user_';

/** Whether it counts a limit of a gate for one user. */
export const isOfUser = (counter: CounterKey): boolean =>
  counter.split(':')[2]?.startsWith(userPart) === true;

/**
 * Of a counter of money of this gate for each passport or user: whose. Null: it is another, or of the gate
 * alone.
 */
export function partOfGate(counter: CounterKey, gateId: GateId): CountedFor | null {
  const [kind, owner, part = ''] = counter.split(':');
  if (kind !== 'gate_spend' || owner !== gateId) return null;
  if (part.startsWith(userPart))
    return { passportId: null, userKey: part.slice(userPart.length) as IdDigest };
  return part === '' || isId('sappr', part) ? null : { passportId: part as PassportId, userKey: null };
}

/** For whom a limit per user counts: without a user it is the passport. */
export interface CountedFor {
  readonly passportId: PassportId | null;
  readonly userKey: IdDigest | null;
}

const laneOfWallet = /^(wallet_(?:rate|spend):[^:]+):[^:]+$/;

/**
 * The counter that counts what all lanes of a wallet have given out; null: the counter is no such lane. The
 * ledger moves it with them, so that their sum never passes the limit of the wallet, whatever its children
 * have set aside before and now.
 */
export const baseOf = (counter: CounterKey): CounterKey | null =>
  (laneOfWallet.exec(counter)?.[1] as CounterKey | undefined) ?? null;

/** The kinds whose units are micro-USD, as counters in the ledger are spelled. */
export const moneyKinds: readonly string[] = ['gate_spend', 'passport_spend', 'wallet_spend'];

/** Whether a counter counts micro-USD, by its name in the ledger; else requests. */
export const isMoney = (counter: CounterKey): boolean =>
  moneyKinds.includes(counter.slice(0, counter.indexOf(':')));
