import type { UnixMillis } from '../../shared/model/time.ts';
import type { CounterKey } from '../../shared/quota/counter.ts';
import { type QuotaWindow, type WindowName, windowAt } from '../../shared/quota/window.ts';
import type { Database, Transaction } from '../base/database.ts';

export interface ReadWindow {
  readonly window: QuotaWindow;
  /** All units given out: leased, held or spent. */
  readonly leased: number;
}

/**
 * The current windows of these counters, in the order given. Takes and locks nothing, so free units may be
 * gone a moment later. For gate tests and usage reports.
 */
export async function readWindows(
  sql: Database | Transaction,
  asked: readonly { readonly counter: CounterKey; readonly window: WindowName }[],
  nowMs: UnixMillis,
): Promise<readonly ReadWindow[]> {
  if (asked.length === 0) return [];
  const windows = asked.map(({ window }) => windowAt(window, nowMs));
  const rows = await sql<{ place: number; leased: number }[]>`
    SELECT w.place, q.leased FROM quota_windows q JOIN unnest(
      ${asked.map(({ counter }) => counter)}::text[],
      ${windows.map(({ name }) => name)}::text[],
      ${windows.map(({ startsAtMs }) => startsAtMs)}::bigint[],
      ${asked.map((_, place) => place)}::bigint[]
    ) AS w (counter, window_name, starts_at_ms, place) USING (counter, window_name, starts_at_ms)`;
  const leased = new Map(rows.map((row) => [row.place, row.leased]));
  return windows.map((window, place) => ({ window, leased: leased.get(place) ?? 0 }));
}
