import type { Backtest, BacktestFailure } from '../../shared/model/backtest.ts';
import type { BacktestId } from '../../shared/model/ids.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Database, Transaction } from '../base/database.ts';
import { databaseNowMs } from '../storage/database-clock.ts';
import { noteDue } from '../storage/due-work.ts';
import { backtestsLimits } from './limits.ts';

/** With the policy that it tries. */
export interface BacktestJob extends Backtest {
  readonly policyHash: string;
  /** Its RFC 8785 form. */
  readonly policy: string;
}

const columns = (sql: Database | Transaction) => sql`
  backtest_id AS "backtestId", account_id AS "accountId", mode, gate_id AS "gateId", policy_hash AS "policyHash", policy,
  since_ms AS "sinceMs", until_ms AS "untilMs", status, progress, reason, report, created_at_ms AS "createdAtMs",
  ended_at_ms AS "endedAtMs"`;

/** False: another one of the account runs. */
export async function insertBacktest(tx: Transaction, job: BacktestJob): Promise<boolean> {
  const { accountId, mode } = job;
  const inserted = await tx`
    INSERT INTO backtests (backtest_id, account_id, mode, gate_id, policy_hash, policy, since_ms, until_ms, status,
      created_at_ms)
    VALUES (${job.backtestId}, ${accountId}, ${mode}, ${job.gateId}, ${job.policyHash}, ${job.policy}, ${job.sinceMs},
      ${job.untilMs}, 'running', ${job.createdAtMs})
    ON CONFLICT (account_id) WHERE status = 'running' DO NOTHING`;
  if (inserted.count === 0) return false;
  noteDue(tx, 'backtests');
  await tx`
    DELETE FROM backtests WHERE backtest_id IN (
      SELECT backtest_id FROM backtests WHERE account_id = ${accountId} AND status <> 'running'
      ORDER BY backtest_id DESC OFFSET ${backtestsLimits.keptMax - 1})`;
  return true;
}

export async function findBacktest(
  sql: Database | Transaction,
  { accountId, mode }: Owner,
  backtestId: BacktestId,
): Promise<Backtest | null> {
  const [row] = await sql<BacktestJob[]>`
    SELECT ${columns(sql)} FROM backtests
    WHERE backtest_id = ${backtestId} AND account_id = ${accountId} AND mode = ${mode}`;
  return row ?? null;
}

/** Nothing where it has ended. */
export async function cancelBacktest(
  sql: Database,
  backtestId: BacktestId,
  nowMs: UnixMillis,
): Promise<void> {
  await sql`
    UPDATE backtests SET status = 'cancelled', ended_at_ms = ${nowMs}
    WHERE backtest_id = ${backtestId} AND status = 'running'`;
}

/** What a replica can begin, or has to end for one that is gone. */
export const dueBacktests = (sql: Database) => sql`
  SELECT FROM backtests
  WHERE status = 'running' AND (worker IS NULL OR worker_until_ms < ${databaseNowMs(sql)}) LIMIT 1`;

const workerUntil = (sql: Database) => sql`${databaseNowMs(sql)} + ${backtestsLimits.workerMs}::int`;

/** The one that waits longest is this replica's from now on. Null: none waits. */
export async function claimBacktest(sql: Database, replicaId: string): Promise<BacktestJob | null> {
  const [row] = await sql<BacktestJob[]>`
    UPDATE backtests SET worker = ${replicaId}, worker_until_ms = ${workerUntil(sql)}
    WHERE backtest_id = (
      SELECT backtest_id FROM backtests WHERE status = 'running' AND worker IS NULL
      ORDER BY created_at_ms LIMIT 1 FOR UPDATE SKIP LOCKED)
    RETURNING ${columns(sql)}`;
  return row ?? null;
}

/** False: it is this replica's no more: cancelled, or taken for gone. */
export async function noteProgress(
  sql: Database,
  { backtestId, replicaId, progress }: Own & { readonly progress: number },
): Promise<boolean> {
  const updated = await sql`
    UPDATE backtests SET progress = ${progress}, worker_until_ms = ${workerUntil(sql)}
    WHERE backtest_id = ${backtestId} AND status = 'running' AND worker = ${replicaId}`;
  return updated.count === 1;
}

interface Own {
  readonly backtestId: BacktestId;
  readonly replicaId: string;
}

export async function endBacktest(
  sql: Database,
  { backtestId, replicaId }: Own,
  end: { readonly report: object } | { readonly reason: BacktestFailure },
): Promise<void> {
  const [report, reason] = 'report' in end ? [JSON.stringify(end.report), null] : [null, end.reason];
  await sql`
    UPDATE backtests SET status = ${report === null ? 'failed' : 'done'}, report = ${report}::text::json,
      progress = CASE WHEN ${reason}::text IS NULL THEN 1 ELSE progress END, reason = ${reason},
      ended_at_ms = ${databaseNowMs(sql)}
    WHERE backtest_id = ${backtestId} AND status = 'running' AND worker = ${replicaId}`;
}

/** Those of replicas that are gone. */
export async function failLostBacktests(sql: Database): Promise<number> {
  const failed = await sql`
    UPDATE backtests SET status = 'failed', reason = 'control_plane_lost', ended_at_ms = ${databaseNowMs(sql)}
    WHERE status = 'running' AND worker IS NOT NULL AND worker_until_ms < ${databaseNowMs(sql)}`;
  return failed.count;
}

/** Some of the old ones. */
export async function trimBacktests(sql: Database, nowMs: UnixMillis): Promise<void> {
  await sql`
    DELETE FROM backtests WHERE backtest_id IN (
      SELECT backtest_id FROM backtests
      WHERE created_at_ms < ${nowMs - backtestsLimits.keptMs} AND status <> 'running'
      LIMIT ${backtestsLimits.trimRowsMax})`;
}
