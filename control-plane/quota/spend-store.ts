import { compileSpendWindows } from '../../shared/decision/compile-windows.ts';
import { type DrawnWindow, windowsOf } from '../../shared/decision/windows-of.ts';
import { must } from '../../shared/errors/assert.ts';
import type { GateId, PassportId } from '../../shared/model/ids.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { CounterKey } from '../../shared/quota/counter.ts';
import { type QuotaWindow, windowKey } from '../../shared/quota/window.ts';
import type { WindowLimit } from '../../shared/quota/window-limit.ts';
import type { Transaction } from '../base/database.ts';
import { databaseNowMs } from '../storage/database-clock.ts';
import { tryStoredConstraints } from '../storage/stored-constraints.ts';
import { quotaLimits } from './limits.ts';

/** The currently configured limits on the money of a gate or a passport. */
export interface SpendLimits {
  readonly spendWindows: readonly WindowLimit[];
  /** Fraction of a limit at which its owner wants an alert. */
  readonly alertAt: number;
  /** Owner of the gate or the passport. */
  readonly owner: Owner;
}

/** By gate and passport. */
export type FoundLimits = ReadonlyMap<string, SpendLimits>;

/**
 * The spend limits of gates and passports. A deleted gate has none, and a limit of 0 is skipped because
 * nothing can approach it.
 */
export async function findSpendLimits(
  tx: Transaction,
  of: readonly { readonly gateId: GateId | null; readonly passportId: PassportId }[],
): Promise<FoundLimits> {
  const gateIds = [...new Set(of.flatMap(({ gateId }) => gateId ?? []))];
  const passportIds = [...new Set(of.map(({ passportId }) => passportId))];
  const hasWindows = tx`constraints->'spend_limits' ?| ARRAY['daily_usd', 'monthly_usd']`;
  const rows = await tx<(Owner & { id: string; of: 'gate' | 'passport'; constraints: unknown })[]>`
    SELECT gate_id AS id, 'gate' AS of, account_id AS "accountId", mode, constraints FROM gates
    WHERE gate_id = ANY(${gateIds}::text[]) AND deleted_at_ms IS NULL AND ${hasWindows}
    UNION ALL
    SELECT passport_id, 'passport', account_id, mode, constraints FROM passports
    WHERE passport_id = ANY(${passportIds}::text[]) AND ${hasWindows}`;
  return new Map(
    rows.flatMap(({ id, of: whose, constraints, ...owner }) => {
      // An unreadable limit raises no alert: it must not keep records out of their chains.
      const spendLimits = tryStoredConstraints(constraints, whose)?.spendLimits ?? null;
      if (spendLimits === null) return [];
      const spendWindows = compileSpendWindows(spendLimits, whose).filter(({ limit }) => limit > 0);
      return [[id, { spendWindows, alertAt: spendLimits.alertAt, owner }] as const];
    }),
  );
}

/** The windows of these limits that money of the passport at the gate counts in, each with its limits. */
export function countedWindows(
  { gateId, passportId }: { readonly gateId: GateId | null; readonly passportId: PassportId },
  limits: FoundLimits,
): readonly { readonly drawn: DrawnWindow; readonly by: SpendLimits }[] {
  const ofGate = gateId === null ? undefined : limits.get(gateId);
  const ofPassport = limits.get(passportId);
  const { spend } = windowsOf({
    gate: gateId === null ? null : { gateId, spendWindows: ofGate?.spendWindows ?? [] },
    passport: { passportId, spendWindows: ofPassport?.spendWindows ?? [] },
  });
  return spend.map((drawn) => {
    const by = drawn.of.kind === 'gate_spend' ? ofGate : ofPassport;
    return { drawn, by: must(by, 'a window is of limits that were found') };
  });
}

/**
 * Sums saturate here, in micro-USD: the largest exact integer, nine times the highest limit. Only records
 * that passed no limit can add up to it, and they must not keep other records out of their chains.
 */
export const spentMax = Number.MAX_SAFE_INTEGER;

export interface SpentOfWindow {
  readonly key: CounterKey;
  readonly window: QuotaWindow;
  /** Added by this call. */
  readonly units: number;
  /** Total spend that triggers an alert. */
  readonly alertUnits: number;
}

/** Total spend of a window, by its index in the input. */
export interface PassedWindow {
  readonly place: number;
  readonly spent: number;
}

/**
 * Adds to the windows, and returns those with an alert due: spend has reached `alertUnits`, and the window
 * has had no alert yet, under this or another limit. The rows stay locked, so if two transactions pass the
 * threshold together the second finds the alert given.
 *
 * Each insert also trims the table. A window is removed only after twice the time in which it accepts
 * records, so none is recreated and alerts twice.
 */
export async function addToWindows(
  tx: Transaction,
  sums: readonly SpentOfWindow[],
): Promise<readonly PassedWindow[]> {
  const rows = await tx<
    { counter: string; name: string; startsAtMs: number; spent: number; isAlerted: boolean; isNew: boolean }[]
  >`
    INSERT INTO quota_spend AS q (counter, window_name, starts_at_ms, ends_at_ms, spent, is_alerted)
    SELECT *, false FROM unnest(
      ${sums.map(({ key }) => key)}::text[],
      ${sums.map(({ window }) => window.name)}::text[],
      ${sums.map(({ window }) => window.startsAtMs)}::bigint[],
      ${sums.map(({ window }) => window.endsAtMs)}::bigint[],
      ${sums.map(({ units }) => units)}::bigint[]
    ) AS new (counter, window_name, starts_at_ms, ends_at_ms, units)
    WHERE ends_at_ms > ${databaseNowMs(tx)} - ${quotaLimits.spendCountedMs}::bigint
    ORDER BY counter COLLATE "C", window_name COLLATE "C", starts_at_ms
    ON CONFLICT (counter, window_name, starts_at_ms) DO UPDATE SET
      spent = least(q.spent + excluded.spent, ${spentMax}::bigint)
    RETURNING counter, window_name AS name, starts_at_ms AS "startsAtMs", spent, is_alerted AS "isAlerted", xmax = 0 AS "isNew"`;
  const byName = new Map(rows.map((row) => [windowKey(row.counter, row), row]));
  const passed = sums.flatMap(({ key, window, alertUnits }, place): PassedWindow[] => {
    const row = byName.get(windowKey(key, window));
    return row === undefined || row.isAlerted || row.spent < alertUnits ? [] : [{ place, spent: row.spent }];
  });
  if (passed.length > 0)
    await markAlerted(
      tx,
      passed.map(({ place }) => must(sums[place], 'what has passed was added')),
    );
  if (rows.some(({ isNew }) => isNew)) await trimWindows(tx);
  return passed;
}

/** The rows are locked already. */
async function markAlerted(tx: Transaction, windows: readonly SpentOfWindow[]): Promise<void> {
  await tx`
    UPDATE quota_spend q SET is_alerted = true FROM unnest(
      ${windows.map(({ key }) => key)}::text[],
      ${windows.map(({ window }) => window.name)}::text[],
      ${windows.map(({ window }) => window.startsAtMs)}::bigint[]
    ) AS w (counter, window_name, starts_at_ms)
    WHERE q.counter = w.counter AND q.window_name = w.window_name AND q.starts_at_ms = w.starts_at_ms`;
}

/** Skips locked rows; a later call removes them. */
async function trimWindows(tx: Transaction): Promise<void> {
  await tx`
    DELETE FROM quota_spend WHERE ctid = ANY (ARRAY(
      SELECT ctid FROM quota_spend
      WHERE ends_at_ms < ${databaseNowMs(tx)} - ${2 * quotaLimits.spendCountedMs}::bigint
      ORDER BY ends_at_ms LIMIT ${quotaLimits.quotaWindowsPerTrimMax} FOR UPDATE SKIP LOCKED))`;
}
