import type { AccountId, WalletId } from '../../shared/model/ids.ts';
import {
  type WalletLimitName,
  type WalletLimits,
  walletDepthMax,
  walletLimits,
} from '../../shared/model/wallet.ts';
import { numbered } from '../support/data/model-service.ts';
import type { Chance } from './chance.ts';
import type { MadeWallet } from './model/wallets.ts';

/** Wallets of one account. */
export interface Tree {
  /** Perhaps another one than that of the sidecars. */
  readonly accountId: AccountId;
  /** Each after its parent. */
  readonly wallets: readonly MadeWallet[];
  /** A wallet of it limits money: without an amount nothing passes there. */
  readonly hasMoney: boolean;
}

const usd = 1_000_000;
const moneyLimits = ['hourly_usd', 'daily_usd', 'monthly_usd', 'total_usd'] as const;
const rateLimits = ['requests_per_minute', 'requests_per_day'] as const;

/** A root, a branch below it up to four deep, and brothers and sisters beside that; half of the time. */
export function makeTree(size: number, chance: Chance): Tree | null {
  if (chance.happens(0.5)) return null;
  const accountId = numbered.account(chance.happens(0.3) ? 2 : 1);
  const names: WalletLimitName[] = [
    ...(chance.happens(0.85) ? [chance.pick(moneyLimits)] : []),
    ...(chance.happens(0.5) ? [chance.pick(rateLimits)] : []),
  ];
  const wallets: MadeWallet[] = [];
  const add = (parent: MadeWallet | null): MadeWallet => {
    const share = parent !== null && chance.happens(0.4) ? 'reserved' : 'pot';
    const made: MadeWallet = {
      walletId: walletId(wallets.length + 1),
      accountId,
      parentId: parent?.walletId ?? null,
      share,
      limits: Object.fromEntries(
        names
          .filter(() => parent === null || chance.happens(0.75))
          .map((name) => [name, limitBelow(name, { parent, share, wallets, size, chance })]),
      ),
    };
    wallets.push(made);
    return made;
  };
  const depth = chance.pick([1, 2, 3, walletDepthMax, walletDepthMax]);
  let parent: MadeWallet | null = null;
  for (let level = 0; level < depth; level++) {
    const above: MadeWallet | null = parent;
    parent = add(above);
    if (above !== null && chance.happens(0.4)) add(above);
  }
  return { accountId, wallets, hasMoney: names.some((name) => walletLimits[name].kind === 'wallet_spend') };
}

interface LimitBelow {
  readonly parent: MadeWallet | null;
  readonly share: MadeWallet['share'];
  readonly wallets: readonly MadeWallet[];
  readonly size: number;
  readonly chance: Chance;
}

/** Of what is reserved no more than its parent has left to set aside. */
function limitBelow(name: WalletLimitName, { parent, share, wallets, size, chance }: LimitBelow): number {
  const unit = walletLimits[name].kind === 'wallet_spend' ? usd : 1;
  const above = (parent?.limits[name] ?? size * unit * chance.pick([1, 2, 4])) / unit;
  if (share === 'pot') return Math.ceil(above * chance.pick([0.4, 0.7, 1])) * unit;
  const aside = wallets.reduce(
    (sum, each) => sum + (isReservedOf(each, parent) ? (each.limits[name] ?? 0) : 0),
    0,
  );
  const left = Math.max(0, above - aside / unit);
  return Math.floor(left * chance.pick([0.3, 0.5])) * unit;
}

const isReservedOf = ({ parentId, share }: MadeWallet, parent: MadeWallet | null): boolean =>
  share === 'reserved' && parent !== null && parentId === parent.walletId;

const walletId = (n: number): WalletId => `wal_${String(n).padStart(26, '0')}` as WalletId;

/** Limits times a factor, in whole dollars. */
export const scaled = (limits: WalletLimits, factor: number): WalletLimits =>
  Object.fromEntries(
    Object.entries(limits).map(([name, limit]) => {
      const unit = walletLimits[name as WalletLimitName].kind === 'wallet_spend' ? usd : 1;
      return [name, Math.ceil((limit / unit) * factor) * unit];
    }),
  );
