import { compileSpendWindows } from '../../shared/decision/compile-windows.ts';
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

/** A limit on the money of one window, as it is configured at this moment. */
export interface SpendLimit {
  readonly limit: WindowLimit;
  /** Fraction of the limit at which its owner wants to know. */
  readonly alertAt: number;
  /** Of the gate or the passport. */
  readonly owner: Owner;
}

/**
 * By gate and passport, those that have such limits. A deleted gate has none any more, and a limit of nothing
 * is passed over: there is nothing to approach.
 */
export async function findSpendLimits(
  tx: Transaction,
  of: readonly { readonly gateId: GateId | null; readonly passportId: PassportId }[],
): Promise<ReadonlyMap<string, readonly SpendLimit[]>> {
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
    rows.map(({ id, of: whose, constraints, ...owner }) => [id, limitsOf(constraints, whose, owner)]),
  );
}

function limitsOf(constraints: unknown, of: 'gate' | 'passport', owner: Owner): readonly SpendLimit[] {
  // Nobody is told of a limit that cannot be read: it must not keep records out of their chains.
  const spendLimits = tryStoredConstraints(constraints, of)?.spendLimits ?? null;
  if (spendLimits === null) return [];
  return compileSpendWindows(spendLimits, of)
    .filter(({ limit }) => limit > 0)
    .map((limit) => ({ limit, alertAt: spendLimits.alertAt, owner }));
}

/**
 * A sum ends here, in micro-USD: the most that is exact. Nine times the highest limit, so that only records
 * which no limit has let through add up to it; theirs must not keep the records of others out of their
 * chains.
 */
export const spentMax = Number.MAX_SAFE_INTEGER;

export interface SpentOfWindow {
  readonly key: CounterKey;
  readonly window: QuotaWindow;
  /** Just now. */
  readonly units: number;
  /** How much has to be spent in all for an alert. */
  readonly alertUnits: number;
}

/** By its place in what was added: what is spent of that window in all. */
export interface PassedWindow {
  readonly place: number;
  readonly spent: number;
}

/**
 * Adds to the windows, and answers those in which an alert is due: what is spent has reached `alertUnits`,
 * and no alert was given in that window before, also under another limit. The rows stay locked, so of two
 * transactions that pass the threshold together the second finds the alert given.
 *
 * Whoever makes the table grow also trims it. A window goes only twice as long after its end as it is added
 * to, so that none is ever begun anew and gives its alert a second time.
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

/** Waits for nobody: a row that somebody has locked stays for the next time. */
async function trimWindows(tx: Transaction): Promise<void> {
  await tx`
    DELETE FROM quota_spend WHERE ctid = ANY (ARRAY(
      SELECT ctid FROM quota_spend
      WHERE ends_at_ms < ${databaseNowMs(tx)} - ${2 * quotaLimits.spendCountedMs}::bigint
      ORDER BY ends_at_ms LIMIT ${quotaLimits.quotaWindowsPerTrimMax} FOR UPDATE SKIP LOCKED))`;
}
