import { ApiError, invalidRequest } from '../../shared/errors/api-error.ts';
import type { GateId } from '../../shared/model/ids.ts';
import type { Owner } from '../../shared/model/owner.ts';
import { dayMs, hourMs, minuteMs, type UnixMillis } from '../../shared/model/time.ts';
import type { DecisionBucket, StatisticsStep } from '../../shared/wire/api/statistics.ts';
import type { Database, Transaction } from '../base/database.ts';
import { statisticsLimits } from './limits.ts';

const stepMsOf = { minute: minuteMs, hour: hourMs, day: dayMs } as const satisfies Record<
  StatisticsStep,
  number
>;

/** Which decisions are counted: from the start of the first bucket to the end of the last. */
export interface StatisticsSpan {
  readonly step: StatisticsStep;
  readonly fromMs: UnixMillis;
  readonly toMs: UnixMillis;
}

/**
 * The whole buckets that these times touch. Absent: the bucket of now is the last, and the first lies as far
 * back as `statisticsLimits.defaultSpanMs` says. Throws `invalid_request` for too many of them.
 */
export function spanOf(
  step: StatisticsStep,
  given: { readonly fromMs: UnixMillis | null; readonly toMs: UnixMillis | null },
  nowMs: UnixMillis,
): StatisticsSpan {
  const stepMs = stepMsOf[step];
  const toMs = Math.ceil((given.toMs ?? nowMs + 1) / stepMs) * stepMs;
  const firstMs = given.fromMs ?? toMs - statisticsLimits.defaultSpanMs[step];
  const fromMs = Math.floor(firstMs / stepMs) * stepMs;
  if (fromMs >= toMs) throw invalidRequest('from', 'from must lie before to.');
  if ((toMs - fromMs) / stepMs > statisticsLimits.bucketsMax) {
    throw invalidRequest(
      'from',
      `One answer has at most ${statisticsLimits.bucketsMax} buckets: choose a longer step.`,
    );
  }
  return { step, fromMs: fromMs as UnixMillis, toMs: toMs as UnixMillis };
}

interface CountRow {
  readonly startsAtMs: UnixMillis;
  readonly decision: string;
  readonly reason: string;
  readonly decisions: number;
}

/** Every bucket of the span, oldest first, empty ones included. */
export async function readDecisionStatistics(
  sql: Database | Transaction,
  { accountId, mode }: Owner,
  { step, fromMs, toMs }: StatisticsSpan,
  gateId: GateId | null,
): Promise<readonly DecisionBucket[]> {
  const stepMs = stepMsOf[step];
  const rows = await sql<CountRow[]>`
    SELECT starts_at_ms - starts_at_ms % ${stepMs}::bigint AS "startsAtMs", decision, reason,
      sum(decisions)::bigint AS decisions
    FROM decision_counts
    WHERE account_id = ${accountId} AND mode = ${mode} AND step = ${step === 'minute' ? 'minute' : 'hour'}
      AND starts_at_ms >= ${fromMs} AND starts_at_ms < ${toMs}
      ${gateId === null ? sql`` : sql`AND gate_id = ${gateId}`}
    GROUP BY 1, 2, 3 ORDER BY 1, 2, 3 LIMIT ${statisticsLimits.rowsMax + 1}`;
  if (rows.length > statisticsLimits.rowsMax) throw new ApiError('overloaded');
  const buckets = new Map<number, DecisionBucket>();
  for (let startsAtMs: number = fromMs; startsAtMs < toMs; startsAtMs += stepMs) {
    buckets.set(startsAtMs, { startsAtMs: startsAtMs as UnixMillis, counts: [] });
  }
  for (const { startsAtMs, decision, reason, decisions } of rows) {
    buckets.get(startsAtMs)?.counts.push({ decision, reason: reason === '' ? null : reason, decisions });
  }
  return [...buckets.values()];
}

/**
 * Removes all counts whose time is over, with statements that remove at most `rowsPerStatement` each: many
 * gates make more of them in a minute than one statement should lock.
 */
export async function trimDecisionCounts(
  sql: Database,
  nowMs: UnixMillis,
  rowsPerStatement: number = statisticsLimits.rowsPerTrimMax,
): Promise<void> {
  const kept = { minute: statisticsLimits.minutesKeptMs, hour: statisticsLimits.hoursKeptMs };
  for (const [step, keptMs] of Object.entries(kept)) {
    let removed: number;
    do {
      const rows = await sql`
        DELETE FROM decision_counts WHERE ctid = ANY (ARRAY(
          SELECT ctid FROM decision_counts WHERE step = ${step} AND starts_at_ms < ${nowMs - keptMs}
          ORDER BY starts_at_ms LIMIT ${rowsPerStatement} FOR UPDATE SKIP LOCKED))`;
      removed = rows.count;
    } while (removed === rowsPerStatement);
  }
}
