import { must } from '../../shared/errors/assert.ts';
import type { IdDigest } from '../../shared/model/id-digest.ts';
import type { WalletId } from '../../shared/model/ids.ts';
import { parseMicroUsd, renderUsd } from '../../shared/model/money.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { type Wallet, type WalletLimits, walletLimitNames, walletLimits } from '../../shared/model/wallet.ts';
import { type QuotaWindow, type WindowName, windowAt } from '../../shared/quota/window.ts';
import type { Database, Transaction } from '../base/database.ts';
import type { BaseDeps } from '../base/deps.ts';
import { databaseNowMs } from '../storage/database-clock.ts';
import { emitEvents, type NewEvent } from '../webhooks/emit-events.ts';
import { quotaLimits } from './limits.ts';

/** What one transaction adds to the sums of a window of a wallet; less than 0: takes away. */
export interface WalletSum {
  readonly walletKey: IdDigest;
  readonly window: QuotaWindow;
  readonly spent: number;
  readonly held: number;
  readonly latestMs: UnixMillis;
}

interface SumRow {
  readonly walletKey: IdDigest;
  readonly window: WindowName;
  readonly startsAtMs: UnixMillis;
  readonly spent: number;
  readonly held: number;
  readonly isAlerted: boolean;
}

const sumColumns = (sql: Database | Transaction) => sql`
  q.wallet_key AS "walletKey", q.window_name AS window, q.starts_at_ms AS "startsAtMs", q.spent, q.held,
  q.is_alerted AS "isAlerted"`;

/**
 * Adds to the sums, locks their rows, and sends the alerts that are due. Each new row removes some of windows
 * that ended twice as long ago as they take money: none is made anew and alerts twice.
 */
export async function addToWallets(
  tx: Transaction,
  deps: Pick<BaseDeps, 'random'>,
  sums: readonly WalletSum[],
): Promise<void> {
  if (sums.length === 0) return;
  const rows = await tx<(SumRow & { isNew: boolean })[]>`
    INSERT INTO wallet_spend AS q (wallet_key, window_name, starts_at_ms, ends_at_ms, spent, held, is_alerted)
    SELECT *, false FROM unnest(
      ${sums.map(({ walletKey }) => walletKey)}::text[],
      ${sums.map(({ window }) => window.name)}::text[],
      ${sums.map(({ window }) => window.startsAtMs)}::bigint[],
      ${sums.map(({ window }) => window.endsAtMs)}::bigint[],
      ${sums.map(({ spent }) => spent)}::bigint[],
      ${sums.map(({ held }) => held)}::bigint[]
    ) AS new (wallet_key, window_name, starts_at_ms, ends_at_ms, spent, held)
    WHERE ends_at_ms > ${databaseNowMs(tx)} - ${quotaLimits.spendCountedMs}::bigint
    ORDER BY wallet_key COLLATE "C", window_name COLLATE "C", starts_at_ms
    ON CONFLICT (wallet_key, window_name, starts_at_ms) DO UPDATE SET
      spent = q.spent + excluded.spent, held = q.held + excluded.held
    RETURNING ${sumColumns(tx)}, xmax = 0 AS "isNew"`;
  const latestMs = Math.max(...sums.map((sum) => sum.latestMs)) as UnixMillis;
  const grew = new Set(sums.flatMap(({ walletKey, spent }) => (spent > 0 ? [walletKey] : [])));
  await alertWhereDue(
    tx,
    deps,
    rows.filter(({ walletKey, isAlerted }) => !isAlerted && grew.has(walletKey)),
    latestMs,
  );
  if (rows.some(({ isNew }) => isNew)) await trimSums(tx);
}

/** A wallet's limits or `alert_at` have changed: alerts where a sum of a current window is beyond it now. */
export async function alertOnNewLimits(
  tx: Transaction,
  deps: Pick<BaseDeps, 'random'>,
  { key }: Pick<Wallet, 'key'>,
  nowMs: UnixMillis,
): Promise<void> {
  const rows = await tx<SumRow[]>`
    SELECT ${sumColumns(tx)} FROM wallet_spend q
    WHERE q.wallet_key = ${key} AND NOT q.is_alerted AND q.starts_at_ms <= ${nowMs} AND q.ends_at_ms > ${nowMs}
    ORDER BY q.window_name COLLATE "C", q.starts_at_ms FOR UPDATE`;
  await alertWhereDue(tx, deps, rows, nowMs);
}

interface AlertedWallet extends Owner {
  readonly walletId: WalletId;
  readonly key: IdDigest;
  readonly limits: WalletLimits;
  readonly alertAt: number;
}

/** The rows are locked and have had no alert. */
async function alertWhereDue(
  tx: Transaction,
  deps: Pick<BaseDeps, 'random'>,
  rows: readonly SumRow[],
  atMs: UnixMillis,
): Promise<void> {
  if (rows.length === 0) return;
  const wallets = await tx<AlertedWallet[]>`
    SELECT wallet_id AS "walletId", wallet_key AS key, account_id AS "accountId", mode, limits, alert_at AS "alertAt"
    FROM wallets WHERE wallet_key = ANY(${rows.map(({ walletKey }) => walletKey)}::text[]) AND deleted_at_ms IS NULL`;
  const byKey = new Map(wallets.map((wallet) => [wallet.key, wallet]));
  const due = rows.flatMap((row) => {
    const wallet = byKey.get(row.walletKey);
    const limit = wallet === undefined ? 0 : limitOf(wallet.limits, row.window);
    const isDue = wallet !== undefined && limit > 0 && row.spent > 0;
    return isDue && row.spent >= Math.round(limit * wallet.alertAt) ? [{ row, wallet, limit }] : [];
  });
  if (due.length === 0) return;
  await tx`
    UPDATE wallet_spend q SET is_alerted = true FROM unnest(
      ${due.map(({ row }) => row.walletKey)}::text[],
      ${due.map(({ row }) => row.window)}::text[],
      ${due.map(({ row }) => row.startsAtMs)}::bigint[]
    ) AS w (wallet_key, window_name, starts_at_ms)
    WHERE (q.wallet_key, q.window_name, q.starts_at_ms) = (w.wallet_key, w.window_name, w.starts_at_ms)`;
  await emitEvents(
    tx,
    deps,
    due.map(
      ({ row, wallet, limit }): NewEvent => ({
        event: 'spend_limit.approaching',
        to: [{ accountId: wallet.accountId, mode: wallet.mode }],
        data: {
          gate_id: null,
          passport_id: null,
          wallet_id: wallet.walletId,
          window: row.window,
          limit_usd: dollars(limit),
          spent_usd: dollars(row.spent),
          // Four digits, never rounded up: 1 means fully spent.
          fraction: Math.floor((row.spent / limit) * 10_000) / 10_000,
        },
        timestampMs: atMs,
      }),
    ),
  );
}

/** Of the window; 0: the wallet has none. Nothing can approach a limit of 0. */
const limitOf = (limits: WalletLimits, window: WindowName): number => {
  const name = walletLimitNames.find(
    (each) => walletLimits[each].kind === 'wallet_spend' && walletLimits[each].window === window,
  );
  return (name !== undefined && limits[name]) || 0;
};

const dollars = (units: number): number =>
  renderUsd(must(parseMicroUsd(units), 'money is counted in micro-USD'));

/** Skips locked rows; a later call removes them. */
async function trimSums(tx: Transaction): Promise<void> {
  await tx`
    DELETE FROM wallet_spend WHERE ctid = ANY (ARRAY(
      SELECT ctid FROM wallet_spend
      WHERE ends_at_ms < ${databaseNowMs(tx)} - ${2 * quotaLimits.spendCountedMs}::bigint
      ORDER BY ends_at_ms LIMIT ${quotaLimits.quotaWindowsPerTrimMax} FOR UPDATE SKIP LOCKED))`;
}

/** What open holds have of the current windows of a wallet, in micro-USD by the name of the window. */
export async function readOpenHolds(
  sql: Database | Transaction,
  { key }: Pick<Wallet, 'key'>,
  nowMs: UnixMillis,
): Promise<ReadonlyMap<WindowName, number>> {
  const rows = await sql<Pick<SumRow, 'window' | 'startsAtMs' | 'held'>[]>`
    SELECT window_name AS window, starts_at_ms AS "startsAtMs", held FROM wallet_spend
    WHERE wallet_key = ${key} AND starts_at_ms <= ${nowMs} AND ends_at_ms > ${nowMs}`;
  return new Map(
    rows
      .filter(({ window, startsAtMs }) => windowAt(window, nowMs).startsAtMs === startsAtMs)
      .map(({ window, held }) => [window, Math.max(0, held)]),
  );
}
