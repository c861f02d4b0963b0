import { must } from '../../shared/errors/assert.ts';
import type { IdDigest } from '../../shared/model/id-digest.ts';
import type { GateId, PassportId, WalletId } from '../../shared/model/ids.ts';
import { parseMicroUsd, renderUsd } from '../../shared/model/money.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { type Wallet, type WalletLimits, walletLimitNames, walletLimits } from '../../shared/model/wallet.ts';
import { baseOf, type CounterKey, counterKey, isMoney } from '../../shared/quota/counter.ts';
import type { WindowName } from '../../shared/quota/window.ts';
import type { Transaction } from '../base/database.ts';
import type { BaseDeps } from '../base/deps.ts';
import { emitEvents, type NewEvent } from '../webhooks/emit-events.ts';
import { keyOf, lockUnalerted, markAlerted, type UnalertedSum } from './spend-sums.ts';

/** When the owner of a limit wants an alert. */
export interface AlertTerms {
  readonly limit: number;
  /** Fraction of the limit at which its owner wants an alert. */
  readonly alertAt: number;
  /** Owner of the gate, the passport or the wallet. */
  readonly owner: Owner;
  readonly of: {
    readonly gate_id: GateId | null;
    readonly passport_id: PassportId | null;
    readonly wallet_id: WalletId | null;
  };
}

/** A sum that this transaction changed; `terms` null: of a wallet, they are looked up. */
export interface ChangedSum {
  readonly terms: AlertTerms | null;
  /** Time of the alert. */
  readonly latestMs: UnixMillis;
}

/** All lanes of a wallet are summed as one. */
export const sumOfLanes = (lane: CounterKey): CounterKey => must(baseOf(lane), 'a wallet gives out by lanes');

export const walletCounter = (wallet: IdDigest): CounterKey =>
  sumOfLanes(counterKey({ kind: 'wallet_spend', wallet, lane: 'pot' }));

const keyOfWallet = (counter: CounterKey): IdDigest =>
  must(counter.split(':')[1], 'a counter names its wallet') as IdDigest;

export const isOfWallet = (counter: CounterKey): boolean => isMoney(counter) && counter.startsWith('wallet_');

/** A wallet's limits or `alert_at` have changed: alerts where a sum of a current window is beyond it now. */
export async function alertOnNewLimits(
  tx: Transaction,
  deps: Pick<BaseDeps, 'random'>,
  { key }: Pick<Wallet, 'key'>,
  nowMs: UnixMillis,
): Promise<void> {
  const unalerted = await lockUnalerted(tx, walletCounter(key), nowMs);
  const now = { terms: null, latestMs: nowMs };
  await alertWhereDue(tx, deps, unalerted, new Map(unalerted.map((sum) => [keyOf(sum), now])));
}

/** The rows are locked and have had no alert. */
export async function alertWhereDue(
  tx: Transaction,
  deps: Pick<BaseDeps, 'random'>,
  unalerted: readonly UnalertedSum[],
  changes: ReadonlyMap<string, ChangedSum>,
): Promise<void> {
  const wallets = await findWallets(
    tx,
    unalerted.flatMap(({ counter }) => (isOfWallet(counter) ? [keyOfWallet(counter)] : [])),
  );
  const due = unalerted.flatMap((sum) => {
    const { terms: known, latestMs } = must(changes.get(keyOf(sum)), 'what is unalerted was changed');
    const terms = known ?? termsOfWallet(wallets.get(keyOfWallet(sum.counter)), sum.window);
    const isDue = terms !== null && sum.spent > 0 && sum.spent >= Math.round(terms.limit * terms.alertAt);
    return isDue ? [{ sum, terms, latestMs }] : [];
  });
  if (due.length === 0) return;
  await markAlerted(
    tx,
    due.map(({ sum }) => sum),
  );
  await emitEvents(
    tx,
    deps,
    due.map(
      ({ sum: { window, spent }, terms: { owner, of, limit }, latestMs }): NewEvent => ({
        event: 'spend_limit.approaching',
        to: [owner],
        data: {
          ...of,
          window,
          limit_usd: dollars(limit),
          spent_usd: dollars(spent),
          // Four digits, never rounded up: 1 means fully spent.
          fraction: Math.floor((spent / limit) * 10_000) / 10_000,
        },
        timestampMs: latestMs,
      }),
    ),
  );
}

const dollars = (units: number): number =>
  renderUsd(must(parseMicroUsd(units), 'money is counted in micro-USD'));

interface AlertedWallet extends Owner {
  readonly walletId: WalletId;
  readonly key: IdDigest;
  readonly limits: WalletLimits;
  readonly alertAt: number;
}

async function findWallets(
  tx: Transaction,
  keys: readonly IdDigest[],
): Promise<ReadonlyMap<IdDigest, AlertedWallet>> {
  if (keys.length === 0) return new Map();
  const wallets = await tx<AlertedWallet[]>`
    SELECT wallet_id AS "walletId", wallet_key AS key, account_id AS "accountId", mode, limits, alert_at AS "alertAt"
    FROM wallets WHERE wallet_key = ANY(${[...keys]}::text[]) AND deleted_at_ms IS NULL`;
  return new Map(wallets.map((wallet) => [wallet.key, wallet]));
}

/** Null: the wallet has no limit of this window any more, or one of 0, which nothing can approach. */
function termsOfWallet(wallet: AlertedWallet | undefined, window: WindowName): AlertTerms | null {
  if (wallet === undefined) return null;
  const { accountId, mode, walletId, limits, alertAt } = wallet;
  const name = walletLimitNames.find(
    (each) => walletLimits[each].kind === 'wallet_spend' && walletLimits[each].window === window,
  );
  const limit = (name !== undefined && limits[name]) || 0;
  const of = { gate_id: null, passport_id: null, wallet_id: walletId };
  return limit > 0 ? { limit, alertAt, owner: { accountId, mode }, of } : null;
}
