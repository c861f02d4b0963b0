import type { IdDigest } from '../model/id-digest.ts';
import type { GateId, PassportId } from '../model/ids.ts';
import type { StandingApprovalTerms } from '../model/standing-approval.ts';
import type { UnixMillis } from '../model/time.ts';
import { type WalletWindow, walletWindows } from '../model/wallet.ts';
import { type Counter, type CounterKey, counterKey } from '../quota/counter.ts';
import type { WindowName } from '../quota/window.ts';
import { counterOf, type WindowLimit } from '../quota/window-limit.ts';

type DrawnCounter = Exclude<Counter, { readonly kind: 'plan' }>;

/** A window that a PERMIT takes units from. */
export interface DrawnWindow {
  readonly of: DrawnCounter;
  /** The name of `of` in the ledger. */
  readonly counter: CounterKey;
  readonly window: WindowName;
  /** Requests or micro-USD. */
  readonly limit: number;
  /** When a `total` ends; null for a window of the calendar. */
  readonly endsAtMs: UnixMillis | null;
  /** Of a lane of a wallet: the limit of the wallet, which all its lanes share. */
  readonly baseLimit?: number | undefined;
}

/** Those that money, and those that requests are taken from. */
export interface DrawnOf {
  readonly spend: readonly DrawnWindow[];
  readonly rate: readonly DrawnWindow[];
}

export interface DrawnWindows extends DrawnOf {
  /** By wallet, from the passport's own up to the root. */
  readonly levels: readonly DrawnOf[];
}

interface Limited {
  readonly spendWindows: readonly WindowLimit[];
  /** Absent: not asked for. */
  readonly rateWindows?: readonly WindowLimit[];
}

/** As a sidecar is told of it. */
export type DrawnLane = Omit<WalletWindow, 'window' | 'baseLimit'> & {
  readonly window: WindowName;
  readonly baseLimit?: number;
};

/**
 * The windows that a PERMIT of this passport at this gate draws on: the gate's, then the passport's own, then
 * those of its wallets. By a standing approval it draws on `totalOf` it, too; one that an approval pays draws
 * on no money.
 */
export function windowsOf({
  gate,
  passport,
  wallets = [],
  lanes = walletWindows(wallets),
}: {
  /** Null: no gate was named. */
  readonly gate: (Limited & { readonly gateId: GateId }) | null;
  readonly passport: Limited & {
    readonly passportId: PassportId;
    /** Absent: no limit counts for each user. */
    readonly userKey?: IdDigest | null;
  };
  /** Its own, and those above it up to the root. */
  readonly wallets?: Parameters<typeof walletWindows>[0];
  /** What it draws on of each of them. */
  readonly lanes?: readonly (readonly DrawnLane[])[];
}): DrawnWindows {
  const { passportId, userKey = null } = passport;
  const ofLimit = (each: WindowLimit): DrawnWindow => {
    return drawn(counterOf(each, gate?.gateId ?? null, { passportId, userKey }), each);
  };
  return {
    spend: [...(gate?.spendWindows ?? []), ...passport.spendWindows].map(ofLimit),
    rate: [...(gate?.rateWindows ?? []), ...(passport.rateWindows ?? [])].map(ofLimit),
    levels: lanes.map((ofWallet) => {
      const ofKind = (of: DrawnLane['kind']) =>
        ofWallet
          .filter(({ kind }) => kind === of)
          .map((each) => drawn({ kind: of, wallet: each.wallet, lane: each.lane }, each));
      return { spend: ofKind('wallet_spend'), rate: ofKind('wallet_rate') };
    }),
  };
}

/** What a PERMIT by this standing approval draws on beside. */
export const totalOf = (
  {
    standingApprovalId,
    totalMicroUsd: limit,
    expiresAtMs: endsAtMs,
  }: Pick<StandingApprovalTerms, 'standingApprovalId' | 'totalMicroUsd'> & {
    /** Null: it is over. */
    readonly expiresAtMs: UnixMillis | null;
  },
  gateId: GateId,
): DrawnWindow =>
  drawn({ kind: 'standing_approval', gateId, standingApprovalId }, { window: 'total', limit, endsAtMs });

/** Field by field: with a rest and a spread, a view of a sidecar takes three times as long to make. */
const drawn = (
  of: DrawnCounter,
  { window, limit, endsAtMs = null, baseLimit }: Partial<DrawnWindow> & Pick<DrawnWindow, 'window' | 'limit'>,
): DrawnWindow => ({ of, counter: counterKey(of), window, limit, endsAtMs, baseLimit });

/** All windows that money, or requests, are taken from. */
export const moneyOf = ({ spend, levels }: Omit<DrawnWindows, 'rate'>): readonly DrawnWindow[] => [
  ...spend,
  ...levels.flatMap((level) => level.spend),
];
export const requestsOf = ({ rate, levels }: Omit<DrawnWindows, 'spend'>): readonly DrawnWindow[] => [
  ...rate,
  ...levels.flatMap((level) => level.rate),
];
/** Those of its wallets alone. */
export const ofWallets = ({ levels }: Pick<DrawnWindows, 'levels'>): readonly DrawnWindow[] =>
  levels.flatMap(({ spend, rate }) => [...spend, ...rate]);

/** Of a window and its counter, whenever it begins. */
export const drawnName = ({ counter, window }: Pick<DrawnWindow, 'counter' | 'window'>): string =>
  `${counter} ${window}`;
