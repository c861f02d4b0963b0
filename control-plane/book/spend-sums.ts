import type { UnixMillis } from '../../shared/model/time.ts';
import type { CounterKey } from '../../shared/quota/counter.ts';
import { type QuotaWindow, type WindowName, windowKey } from '../../shared/quota/window.ts';
import type { Database, Transaction } from '../base/database.ts';
import { databaseNowMs } from '../storage/database-clock.ts';
import { quotaLimits } from './limits.ts';

/** What one transaction adds to the sums of a window, in micro-USD; less than 0: takes away. */
export interface SumChange {
  readonly counter: CounterKey;
  readonly window: QuotaWindow;
  /** What PERMITs count. */
  readonly spent: number;
  /** What of it open holds have. */
  readonly held: number;
  /**
   * A window without sums gets some even if this is less than 0. False, where a limit may be younger than the
   * PERMIT of which money comes back.
   */
  readonly isExact: boolean;
}

/** Sums of a window that has had no alert. */
export interface UnalertedSum {
  readonly counter: CounterKey;
  readonly window: WindowName;
  readonly startsAtMs: UnixMillis;
  readonly spent: number;
}

/**
 * Sums saturate here, in micro-USD: the largest exact integer, nine times the highest limit. Only records
 * that passed no limit can add up to it, and they must not keep other records out of their chains.
 */
export const spentMax = Number.MAX_SAFE_INTEGER;

/**
 * Adds to the sums, and returns those that grew and have had no alert yet, under this or another limit. Their
 * rows stay locked, in the order of their key, so if two transactions pass a threshold together the second
 * finds the alert given. Each window is named once. A record that comes `quotaLimits.spendCountedMs` after
 * the end of its window does not count.
 *
 * Each new row also trims the table. A window is removed only after twice that time, so none is recreated and
 * alerts twice.
 */
export async function addToSums(
  tx: Transaction,
  changes: readonly SumChange[],
): Promise<readonly UnalertedSum[]> {
  if (changes.length === 0) return [];
  const rows = await tx<(UnalertedSum & { readonly isAlerted: boolean; readonly isNew: boolean })[]>`
    INSERT INTO quota_spend AS q (counter, window_name, starts_at_ms, ends_at_ms, spent, held, is_alerted)
    SELECT counter, window_name, starts_at_ms, ends_at_ms, spent, held, false FROM unnest(
      ${changes.map(({ counter }) => counter)}::text[],
      ${changes.map(({ window }) => window.name)}::text[],
      ${changes.map(({ window }) => window.startsAtMs)}::bigint[],
      ${changes.map(({ window }) => window.endsAtMs)}::bigint[],
      ${changes.map(({ spent }) => spent)}::bigint[],
      ${changes.map(({ held }) => held)}::bigint[],
      ${changes.map(({ isExact }) => (isExact ? 1 : 0))}::int[]
    ) AS new (counter, window_name, starts_at_ms, ends_at_ms, spent, held, is_exact)
    WHERE ends_at_ms > ${databaseNowMs(tx)} - ${quotaLimits.spendCountedMs}::bigint
      AND (spent > 0 OR is_exact = 1 OR EXISTS (
        SELECT FROM quota_spend k WHERE (k.counter, k.window_name, k.starts_at_ms)
          = (new.counter COLLATE "C", new.window_name COLLATE "C", new.starts_at_ms)))
    ORDER BY counter COLLATE "C", window_name COLLATE "C", starts_at_ms
    ON CONFLICT (counter, window_name, starts_at_ms) DO UPDATE SET
      spent = greatest(0, least(q.spent + excluded.spent, ${spentMax}::bigint)), held = q.held + excluded.held
    RETURNING counter, window_name AS window, starts_at_ms AS "startsAtMs", spent, is_alerted AS "isAlerted",
      xmax = 0 AS "isNew"`;
  if (rows.some(({ isNew }) => isNew)) await trimSums(tx);
  const grew = new Set(
    changes.filter(({ spent }) => spent > 0).map(({ counter, window }) => windowKey(counter, window)),
  );
  return rows.filter((row) => !row.isAlerted && grew.has(keyOf(row)));
}

/** The name of a window, as `windowKey` has it. */
export const keyOf = ({ counter, window: name, startsAtMs }: Omit<UnalertedSum, 'spent'>): string =>
  windowKey(counter, { name, startsAtMs });

/** The rows are locked already. An alert is given once, whatever becomes of the limit. */
export async function markAlerted(tx: Transaction, sums: readonly UnalertedSum[]): Promise<void> {
  if (sums.length === 0) return;
  await tx`
    UPDATE quota_spend q SET is_alerted = true FROM unnest(
      ${sums.map(({ counter }) => counter)}::text[],
      ${sums.map(({ window }) => window)}::text[],
      ${sums.map(({ startsAtMs }) => startsAtMs)}::bigint[]
    ) AS w (counter, window_name, starts_at_ms)
    WHERE q.counter = w.counter AND q.window_name = w.window_name AND q.starts_at_ms = w.starts_at_ms`;
}

/** The sums of the current windows of a counter that have had no alert; locks them. */
export const lockUnalerted = (
  tx: Transaction,
  counter: CounterKey,
  nowMs: UnixMillis,
): Promise<readonly UnalertedSum[]> =>
  tx<UnalertedSum[]>`
    SELECT counter, window_name AS window, starts_at_ms AS "startsAtMs", spent FROM quota_spend
    WHERE counter = ${counter} AND NOT is_alerted AND starts_at_ms <= ${nowMs} AND ends_at_ms > ${nowMs}
    ORDER BY window_name COLLATE "C", starts_at_ms FOR UPDATE`;

/** What open holds have of the current windows of a counter, in micro-USD. */
export async function readOpenHolds(
  sql: Database | Transaction,
  counter: CounterKey,
  nowMs: UnixMillis,
): Promise<ReadonlyMap<WindowName, number>> {
  const rows = await sql<{ window: WindowName; held: number }[]>`
    SELECT window_name AS window, greatest(held, 0) AS held FROM quota_spend
    WHERE counter = ${counter} AND starts_at_ms <= ${nowMs} AND ends_at_ms > ${nowMs}`;
  return new Map(rows.map(({ window, held }) => [window, held]));
}

/** Skips locked rows; a later call removes them. */
async function trimSums(tx: Transaction): Promise<void> {
  await tx`
    DELETE FROM quota_spend WHERE ctid = ANY (ARRAY(
      SELECT ctid FROM quota_spend
      WHERE ends_at_ms < ${databaseNowMs(tx)} - ${2 * quotaLimits.spendCountedMs}::bigint
      ORDER BY ends_at_ms LIMIT ${quotaLimits.quotaWindowsPerTrimMax} FOR UPDATE SKIP LOCKED))`;
}
