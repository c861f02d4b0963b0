import type { IdDigest } from './id-digest.ts';
import type { AccountId, WalletId } from './ids.ts';
import type { Labels } from './labels.ts';
import type { Mode } from './mode.ts';
import type { UnixMillis } from './time.ts';

/** The limits that a wallet may have, by their public names: what each counts, and over which window. */
export const walletLimits = {
  hourly_usd: { kind: 'wallet_spend', window: 'hour' },
  daily_usd: { kind: 'wallet_spend', window: 'day' },
  monthly_usd: { kind: 'wallet_spend', window: 'month' },
  total_usd: { kind: 'wallet_spend', window: 'total' },
  requests_per_minute: { kind: 'wallet_rate', window: 'minute' },
  requests_per_day: { kind: 'wallet_rate', window: 'day' },
} as const;

export type WalletLimitName = keyof typeof walletLimits;
export const walletLimitNames = Object.keys(walletLimits) as readonly WalletLimitName[];

/** Micro-USD or requests; a limit that is absent is none. */
export type WalletLimits = Readonly<Partial<Record<WalletLimitName, number>>>;

/**
 * `pot`: it draws on what its parent has left. `reserved`: its limits are set aside in its parent's windows,
 * for it alone.
 */
export const walletShares = ['pot', 'reserved'] as const;
export type WalletShare = (typeof walletShares)[number];

export const walletStatuses = ['active', 'frozen'] as const;
export type WalletStatus = (typeof walletStatuses)[number];

/** A root and four below it: company, division, team, agent, run. */
export const walletDepthMax = 5;
/** Of one account and mode. */
export const walletsPerAccountMax = 10_000;
export const walletAlertAtDefault = 0.8;

/** A budget of many passports (contract §6). */
export interface Wallet {
  readonly walletId: WalletId;
  readonly accountId: AccountId;
  readonly mode: Mode;
  /** The digest of its id: its name in feeds and in the ledger, which tells outsiders nothing. */
  readonly key: IdDigest;
  readonly name: string;
  readonly labels: Labels;
  readonly parentId: WalletId | null;
  /** From itself up to its root. */
  readonly path: readonly WalletId[];
  readonly limits: WalletLimits;
  readonly share: WalletShare;
  /** What its children with `share: reserved` have set aside of its limits. */
  readonly setAside: WalletLimits;
  /** Fraction of a money limit at which an alert is due. */
  readonly alertAt: number;
  readonly status: WalletStatus;
  readonly createdAtMs: UnixMillis;
  /** Of the last change of its place, limits or share. */
  readonly changedAtMs: UnixMillis;
}

/** Which part of a wallet's window a request draws on: the common pot, or what a child has set aside. */
export type WalletLane = 'pot' | IdDigest;

/** What a request draws on of one wallet, for one of its limits. */
export type WalletWindow = (typeof walletLimits)[WalletLimitName] & {
  /** Its key. */
  readonly wallet: IdDigest;
  readonly lane: WalletLane;
  /** Of the lane. */
  readonly limit: number;
  /** Of the wallet as a whole. */
  readonly baseLimit: number;
};

/** What lies in the common pot of a limit: what no child has set aside. */
export const potOf = ({ limits, setAside }: Pick<Wallet, 'limits' | 'setAside'>, name: WalletLimitName) =>
  Math.max(0, (limits[name] ?? 0) - (setAside[name] ?? 0));

/** Whether the wallet has this limit set aside in its parent. */
export const isSetAside = (
  wallet: Pick<Wallet, 'share' | 'limits'>,
  parent: Pick<Wallet, 'limits'>,
  name: WalletLimitName,
): boolean =>
  wallet.share === 'reserved' && wallet.limits[name] !== undefined && parent.limits[name] !== undefined;

type Drawn = Pick<Wallet, 'key' | 'limits' | 'share' | 'setAside'>;

/** The windows that a passport of the first of these draws on; from its wallet up to the root. */
export function walletWindows(path: readonly Drawn[]): readonly (readonly WalletWindow[])[] {
  return path.map((wallet, level) => {
    const below = path[level - 1];
    return walletLimitNames.flatMap((name): WalletWindow[] => {
      const baseLimit = wallet.limits[name];
      if (baseLimit === undefined) return [];
      const isOwnShare = below !== undefined && isSetAside(below, wallet, name);
      const lane = isOwnShare ? below.key : 'pot';
      const limit = isOwnShare ? (below.limits[name] ?? 0) : potOf(wallet, name);
      return [
        { ...walletLimits[name], wallet: wallet.key, lane, limit: Math.min(limit, baseLimit), baseLimit },
      ];
    });
  });
}
