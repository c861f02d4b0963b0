import type { UnixMillis } from '../../shared/model/time.ts';
import type { Database, Transaction } from '../base/database.ts';
import { outboxLimits } from './limits.ts';
import type { Answer, Attempt, Claimed, Queues } from './outbox.ts';

/** The queue of one endpoint: its earliest delivery. */
export interface Queue {
  readonly endpointId: string;
  /** Something is due, and the endpoint takes it now. */
  readonly isDue: boolean;
  /** The endpoint is there no more. */
  readonly isDeleted: boolean;
}

/**
 * The next queues after that endpoint, in the order of their ids: at most `outboxLimits.queuesPerLookMax`.
 * An endpoint for which nothing waits has none. The index is walked from endpoint to endpoint, so that the
 * length of a queue costs nothing.
 */
export async function readQueues(
  sql: Database | Transaction,
  queues: Queues,
  { after, nowMs }: { readonly after: string; readonly nowMs: UnixMillis },
): Promise<readonly Queue[]> {
  const [deliveries, endpoints, id] = [sql(queues.deliveries), sql(queues.endpoints), sql(queues.endpointId)];
  return sql<Queue[]>`
    WITH RECURSIVE queues AS (
      (SELECT ${id} AS id, next_attempt_at_ms, 1 AS place FROM ${deliveries}
        WHERE next_attempt_at_ms IS NOT NULL AND ${id} > ${after}
        ORDER BY ${id}, next_attempt_at_ms LIMIT 1)
      UNION ALL
      SELECT next.id, next.next_attempt_at_ms, queues.place + 1
      FROM queues CROSS JOIN LATERAL (
        SELECT d.${id} AS id, d.next_attempt_at_ms FROM ${deliveries} d
        WHERE d.next_attempt_at_ms IS NOT NULL AND d.${id} > queues.id
        ORDER BY d.${id}, d.next_attempt_at_ms LIMIT 1
      ) AS next
      WHERE queues.place < ${outboxLimits.queuesPerLookMax}
    )
    SELECT q.id AS "endpointId", endpoint.${id} IS NULL AS "isDeleted",
      endpoint.${id} IS NOT NULL AND q.next_attempt_at_ms <= ${nowMs} AND ${takesNow(sql, queues, nowMs)} AS "isDue"
    FROM queues q LEFT JOIN ${endpoints} endpoint ON endpoint.${id} = q.id ORDER BY q.id`;
}

/**
 * Whether the row `endpoint` accepts deliveries now. Those of a suspended account wait: its keys are refused
 * (contract §2), and deliveries would reveal what they cannot read. Rejected: emitting nothing for it,
 * because its owner can neither end the suspension nor look up the missed events.
 */
export const takesNow = (sql: Database | Transaction, queues: Queues, nowMs: UnixMillis) => sql`
  endpoint.status = 'enabled' AND coalesce(endpoint.paused_until_ms, 0) <= ${nowMs} AND ${queues.takesNow(sql, nowMs)}
  AND (SELECT a.status FROM accounts a WHERE a.account_id = endpoint.account_id) = 'active'`;

/** What is due or waits, for the pulse. */
export const waitingIn = (queues: Queues) => (sql: Database) =>
  sql`SELECT FROM ${sql(queues.deliveries)} WHERE next_attempt_at_ms IS NOT NULL`;

/**
 * Removes some deliveries of deleted endpoints: they are unreadable, and their queues would be scanned before
 * others until they are old.
 */
export async function dropQueues(
  sql: Database,
  { deliveries: from, key: [id = ''], endpointId }: Queues,
  endpointIds: readonly string[],
): Promise<void> {
  if (endpointIds.length === 0) return;
  const which: ReturnType<Database> = sql`
    ${sql(endpointId)} = ANY(${[...endpointIds]}::text[]) AND next_attempt_at_ms IS NOT NULL`;
  await removeSome(sql, { from, id }, which);
}

/**
 * Removes some rows with an id below that, of one table after the other. Ids begin with their time of
 * creation, so old rows are the start of an index. Resolves to whether none are left.
 */
export async function removeOld(
  sql: Database,
  old: readonly { readonly from: string; readonly id: string; readonly below: string }[],
): Promise<boolean> {
  for (const { from, id, below } of old) {
    const removed = await removeSome(sql, { from, id }, sql`${sql(id)} < ${below}`, sql`ORDER BY ${sql(id)}`);
    if (removed >= outboxLimits.rowsPerTrimMax) return false;
  }
  return true;
}

/** By their ids, because another replica may be locking them. */
async function removeSome(
  sql: Database,
  { from, id }: { readonly from: string; readonly id: string },
  which: ReturnType<Database>,
  order: ReturnType<Database> = sql``,
): Promise<number> {
  const { count } = await sql`
    DELETE FROM ${sql(from)} WHERE ${which} AND ${sql(id)} = ANY (ARRAY(
      SELECT ${sql(id)} FROM ${sql(from)} WHERE ${which} ${order} LIMIT ${outboxLimits.rowsPerTrimMax}))`;
  return count;
}

/** What a row that was locked becomes. */
interface Settled {
  readonly key: readonly string[];
  readonly lockEndsAtMs: UnixMillis;
  /** Null: as it was, because it was not attempted to its end. */
  readonly status: string | null;
  readonly nextAttemptAtMs: UnixMillis | null;
}

/**
 * The statement that records attempts; it returns the rows that it has settled. Where a delivery failed for
 * good, those that it spoke for are due as they were: what a server refuses may be the words of one
 * requester.
 */
export function settle<D extends Claimed>(
  sql: Database | Transaction,
  queues: Queues<D>,
  replicaId: string,
  attempts: readonly Pick<Attempt<D, Answer>, 'delivery' | 'answer' | 'nextAttemptAtMs'>[],
): ReturnType<Database> {
  const rows = attempts.flatMap(({ delivery, answer: { hasSucceeded }, nextAttemptAtMs }): Settled[] => {
    const { lockEndsAtMs, dueAtMs } = delivery;
    const [own = [], ...others] = queues.keysOf(delivery);
    const hasFailed = !hasSucceeded && nextAttemptAtMs === null;
    const status = hasSucceeded ? queues.doneStatus : 'pending';
    return [
      { key: own, lockEndsAtMs, status: hasFailed ? 'failed' : status, nextAttemptAtMs },
      ...others.map((key) => ({
        ...{ key, lockEndsAtMs, status },
        nextAttemptAtMs: hasFailed ? dueAtMs : nextAttemptAtMs,
      })),
    ];
  });
  return settling(sql, queues, replicaId, rows);
}

/**
 * Releases what was locked and not attempted, or not to its end: it is due as it was, for any replica, and
 * keeps its place in the queue.
 */
export async function release<D extends Claimed>(
  sql: Database,
  queues: Queues<D>,
  replicaId: string,
  deliveries: readonly D[],
): Promise<void> {
  const rows = deliveries.flatMap((delivery) => {
    const { lockEndsAtMs, dueAtMs: nextAttemptAtMs } = delivery;
    return queues.keysOf(delivery).map((key) => ({ key, lockEndsAtMs, status: null, nextAttemptAtMs }));
  });
  if (rows.length > 0) await settling(sql, queues, replicaId, rows);
}

/**
 * One that was locked or queued again meanwhile is skipped, also where that was this replica, after a pause
 * longer than its lock: what comes of the later one counts.
 */
const settling = (
  sql: Database | Transaction,
  { deliveries, key, counters }: Queues,
  replicaId: string,
  rows: readonly Settled[],
): ReturnType<Database> => sql`
  UPDATE ${sql(deliveries)} d SET status = coalesce(made.status, d.status),
    ${counters.map((name) => sql`${sql(name)} = d.${sql(name)} + (made.status IS NOT NULL)::int,`)}
    next_attempt_at_ms = made.next_attempt_at_ms, claimed_by = NULL
  FROM unnest(
    ${key.map((_, place) => sql`${rows.map((row) => row.key[place] ?? '')}::text[],`)}
    ${rows.map(({ lockEndsAtMs }) => lockEndsAtMs)}::bigint[],
    ${rows.map(({ status }) => status)}::text[],
    ${rows.map(({ nextAttemptAtMs }) => nextAttemptAtMs)}::bigint[]
  ) AS made (${key.map((name) => sql`${sql(name)},`)} lock_ends_at_ms, status, next_attempt_at_ms)
  WHERE ${key.map((name) => sql`d.${sql(name)} = made.${sql(name)} AND`)}
    d.claimed_by = ${replicaId} AND d.next_attempt_at_ms = made.lock_ends_at_ms
  RETURNING made.*`;
