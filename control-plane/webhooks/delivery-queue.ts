import type { DeliveryId, EventId, WebhookId } from '../../shared/model/ids.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { DeliveryStatus, WebhookFormat } from '../../shared/model/webhook.ts';
import type { Database, Transaction } from '../base/database.ts';
import { noteHints } from '../events/note-hints.ts';
import { webhooksLimits } from './limits.ts';
import type { Claimed, Queue } from './outbox.ts';
import type { WebhookSecrets } from './webhook-store.ts';

/**
 * The next queues after that endpoint, in the order of their ids; an endpoint for which nothing waits has
 * none. The index is walked from endpoint to endpoint, so that the length of a queue costs nothing.
 */
export async function readQueues(
  sql: Database | Transaction,
  { after, nowMs }: { readonly after: string; readonly nowMs: UnixMillis },
): Promise<readonly Queue[]> {
  return sql<Queue[]>`
    WITH RECURSIVE queues AS (
      (SELECT webhook_id, next_attempt_at_ms, 1 AS place FROM webhook_deliveries
        WHERE next_attempt_at_ms IS NOT NULL AND webhook_id > ${after}
        ORDER BY webhook_id, next_attempt_at_ms LIMIT 1)
      UNION ALL
      SELECT next.webhook_id, next.next_attempt_at_ms, queues.place + 1
      FROM queues CROSS JOIN LATERAL (
        SELECT d.webhook_id, d.next_attempt_at_ms FROM webhook_deliveries d
        WHERE d.next_attempt_at_ms IS NOT NULL AND d.webhook_id > queues.webhook_id
        ORDER BY d.webhook_id, d.next_attempt_at_ms LIMIT 1
      ) AS next
      WHERE queues.place < ${webhooksLimits.webhookQueuesPerLookMax}
    )
    SELECT q.webhook_id AS "endpointId", w.webhook_id IS NULL AS "isDeleted",
      w.webhook_id IS NOT NULL AND q.next_attempt_at_ms <= ${nowMs} AND ${takesNow(sql, nowMs)} AS "isDue"
    FROM queues q LEFT JOIN webhooks w USING (webhook_id) ORDER BY q.webhook_id`;
}

/**
 * Whether the endpoint `w` accepts deliveries now. Those of a suspended account wait: its keys are refused
 * (contract §2), and webhooks would reveal what they cannot read. Rejected: emitting nothing for it, because
 * its owner can neither end the suspension nor look up the missed events.
 */
const takesNow = (sql: Database | Transaction, nowMs: UnixMillis) => sql`
  w.status = 'enabled' AND coalesce(w.paused_until_ms, 0) <= ${nowMs}
  AND (SELECT a.status FROM accounts a WHERE a.account_id = w.account_id) = 'active'`;

/**
 * Removes some deliveries of deleted endpoints: they are unreadable, and their queues would be scanned before
 * others until they are old.
 */
export async function dropQueues(sql: Database, webhookIds: readonly string[]): Promise<void> {
  await sql`
    DELETE FROM webhook_deliveries WHERE delivery_id = ANY (ARRAY(
      SELECT delivery_id FROM webhook_deliveries
      WHERE webhook_id = ANY(${[...webhookIds]}::text[]) AND next_attempt_at_ms IS NOT NULL
      LIMIT ${webhooksLimits.webhookDeliveriesPerTrimMax}))`;
}

export interface LockedDelivery extends Claimed, WebhookSecrets, Owner {
  readonly deliveryId: DeliveryId;
  readonly webhookId: WebhookId;
  readonly eventId: EventId;
  /** In the standard format. */
  readonly body: string;
  readonly format: WebhookFormat;
  /** Of the request that caused the event. */
  readonly traceparent: string | null;
  readonly tracestate: string | null;
  /** Before this one: in all, and since it was last queued. */
  readonly attempts: number;
  readonly tries: number;
  readonly isTest: boolean;
  /** Since when it was due before it was locked. */
  readonly dueAtMs: UnixMillis;
  readonly url: string;
  /** Generation of the endpoint when it was locked; column `era`. */
  readonly generation: number;
}

/**
 * Locks what is due at each of these endpoints, at most as many as it has slots, the longest due first. What
 * another replica is locking at this moment is skipped, not waited for, and so is an endpoint that takes
 * nothing more since its queue was looked at. A lock is only a later time of the next attempt:
 * a replica that dies leaves nothing to clean up.
 *
 * What was picked goes through an array, because the planner takes an array for short: from a join it expects
 * a tenth of the table, and reads all of it.
 */
export async function lockDeliveries(
  sql: Database | Transaction,
  claim: {
    readonly slots: ReadonlyMap<string, number>;
    readonly replicaId: string;
    readonly nowMs: UnixMillis;
  },
): Promise<readonly LockedDelivery[]> {
  const lockEndsAtMs = claim.nowMs + webhooksLimits.webhookLockMs;
  return sql<LockedDelivery[]>`
    WITH picked AS MATERIALIZED (
      SELECT due.delivery_id, due.next_attempt_at_ms
      FROM unnest(${[...claim.slots.keys()]}::text[], ${[...claim.slots.values()]}::bigint[]) AS e (webhook_id, slots)
      CROSS JOIN LATERAL (
        SELECT delivery_id, next_attempt_at_ms FROM webhook_deliveries d
        WHERE d.webhook_id = e.webhook_id AND d.next_attempt_at_ms <= ${claim.nowMs}
        ORDER BY d.next_attempt_at_ms LIMIT e.slots
        FOR UPDATE SKIP LOCKED
      ) AS due
    ), locked AS (
      UPDATE webhook_deliveries d SET next_attempt_at_ms = ${lockEndsAtMs}, claimed_by = ${claim.replicaId}
      FROM webhook_events v, webhooks w
      WHERE d.delivery_id = ANY (ARRAY(SELECT delivery_id FROM picked)) AND v.event_id = d.event_id AND w.webhook_id = d.webhook_id
        AND w.url IS NOT NULL AND ${takesNow(sql, claim.nowMs)}
      RETURNING d.delivery_id AS "deliveryId", d.webhook_id AS "webhookId", d.event_id AS "eventId", v.body, v.traceparent, v.tracestate, d.attempts, d.tries, d.is_test AS "isTest",
        d.next_attempt_at_ms AS "lockEndsAtMs", w.account_id AS "accountId", w.mode, w.url, w.format, w.era AS generation,
        w.sealed_secret AS "sealedSecret", w.previous_secrets AS "previousSecrets"
    )
    SELECT locked.*, picked.next_attempt_at_ms AS "dueAtMs" FROM locked JOIN picked ON picked.delivery_id = locked."deliveryId"
    ORDER BY picked.next_attempt_at_ms, picked.delivery_id`;
}

/** The result of an attempt, and its consequences. */
export interface AttemptResult {
  readonly delivery: LockedDelivery;
  readonly startedAtMs: UnixMillis;
  readonly latencyMs: number;
  readonly statusCode: number | null;
  readonly error: string | null;
  readonly response: string | null;
  readonly status: DeliveryStatus;
  /** Null unless it stays `pending`. */
  readonly nextAttemptAtMs: UnixMillis | null;
}

/**
 * Records attempts and their results. One that was locked or queued again meanwhile is skipped, also where
 * that was this replica, after a pause longer than its lock: what comes of the later one counts.
 */
export async function recordResults(
  sql: Database | Transaction,
  replicaId: string,
  settled: readonly AttemptResult[],
): Promise<void> {
  const column = <T>(read: (settlement: AttemptResult) => T): T[] => settled.map(read);
  await sql`
    WITH made AS (
      SELECT * FROM unnest(
        ${column(({ delivery }) => delivery.deliveryId)}::text[],
        ${column(({ delivery }) => delivery.lockEndsAtMs)}::bigint[],
        ${column(({ delivery }) => delivery.attempts + 1)}::int[],
        ${column(({ delivery }) => delivery.tries + 1)}::int[],
        ${column(({ status }) => status)}::text[],
        ${column(({ nextAttemptAtMs }) => nextAttemptAtMs)}::bigint[],
        ${column(({ startedAtMs }) => startedAtMs)}::bigint[],
        ${column(({ latencyMs }) => latencyMs)}::bigint[],
        ${column(({ statusCode }) => statusCode)}::int[],
        ${column(({ error }) => error)}::text[],
        ${column(({ response }) => response)}::text[]
      ) AS made (delivery_id, lease_ends_at_ms, attempt, tries, status, next_attempt_at_ms, started_at_ms, latency_ms,
        status_code, error, response)
    ), settled AS (
      UPDATE webhook_deliveries d
      SET status = made.status, attempts = made.attempt, tries = made.tries, next_attempt_at_ms = made.next_attempt_at_ms,
        claimed_by = NULL
      FROM made
      WHERE d.delivery_id = made.delivery_id AND d.claimed_by = ${replicaId} AND d.next_attempt_at_ms = made.lease_ends_at_ms
      RETURNING d.delivery_id, made.lease_ends_at_ms
    )
    INSERT INTO webhook_attempts (delivery_id, attempt, started_at_ms, latency_ms, status_code, error, response)
    SELECT made.delivery_id, made.attempt, made.started_at_ms, made.latency_ms, made.status_code, made.error, made.response
    FROM made JOIN settled USING (delivery_id, lease_ends_at_ms)`;
  noteHints(
    sql,
    settled.map(({ delivery: { accountId, mode, webhookId } }) => ({
      accountId,
      mode,
      type: 'delivery',
      id: webhookId,
    })),
  );
}

/**
 * Releases what was locked and not attempted, or not to its end: it is due as it was, for any replica, and
 * keeps its place in the queue.
 */
export async function releaseDeliveries(
  sql: Database | Transaction,
  replicaId: string,
  deliveries: readonly LockedDelivery[],
): Promise<void> {
  if (deliveries.length === 0) return;
  await sql`
    UPDATE webhook_deliveries d SET next_attempt_at_ms = held.due_at_ms, claimed_by = NULL
    FROM unnest(
      ${deliveries.map(({ deliveryId }) => deliveryId)}::text[],
      ${deliveries.map(({ lockEndsAtMs }) => lockEndsAtMs)}::bigint[],
      ${deliveries.map(({ dueAtMs }) => dueAtMs)}::bigint[]
    ) AS held (delivery_id, lease_ends_at_ms, due_at_ms)
    WHERE d.delivery_id = held.delivery_id AND d.claimed_by = ${replicaId} AND d.next_attempt_at_ms = held.lease_ends_at_ms`;
}

export const waitingDeliveries = (sql: Database) =>
  sql`SELECT FROM webhook_deliveries WHERE next_attempt_at_ms IS NOT NULL`;
