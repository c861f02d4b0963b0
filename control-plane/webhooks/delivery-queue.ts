import type { DeliveryId, EventId, WebhookId } from '../../shared/model/ids.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { WebhookFormat } from '../../shared/model/webhook.ts';
import type { Database, Transaction } from '../base/database.ts';
import { noteHints } from '../events/note-hints.ts';
import { type Posted, whyNone } from '../outbox/attempt.ts';
import type { Attempt, Claim, Claimed, Queues } from '../outbox/outbox.ts';
import { settle, takesNow } from '../outbox/queues.ts';
import { webhooksLimits } from './limits.ts';
import type { WebhookSecrets } from './webhook-store.ts';

/** The queues of `webhook_deliveries`. */
export const deliveryQueues: Queues<LockedDelivery> = {
  ...{ work: 'deliveries', deliveries: 'webhook_deliveries', key: ['delivery_id'], doneStatus: 'succeeded' },
  ...{
    counters: ['attempts', 'tries'],
    endpoint: 'webhook',
    endpoints: 'webhooks',
    endpointId: 'webhook_id',
  },
  keysOf: ({ deliveryId }) => [[deliveryId]],
  takesNow: (sql) => sql`endpoint.url IS NOT NULL`,
  health: () => null,
};

export interface LockedDelivery extends Claimed, WebhookSecrets, Owner {
  readonly deliveryId: DeliveryId;
  readonly endpointId: WebhookId;
  readonly eventId: EventId;
  /** In the standard format. */
  readonly body: string;
  readonly format: WebhookFormat;
  /** Of the request that caused the event. */
  readonly traceparent: string | null;
  readonly tracestate: string | null;
  /** In all, before this one. */
  readonly attempts: number;
  readonly url: string;
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
  claim: Claim,
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
      FROM webhook_events v, webhooks endpoint
      WHERE d.delivery_id = ANY (ARRAY(SELECT delivery_id FROM picked)) AND v.event_id = d.event_id AND endpoint.webhook_id = d.webhook_id
        AND ${takesNow(sql, deliveryQueues, claim.nowMs)}
      RETURNING d.delivery_id AS "deliveryId", d.webhook_id AS "endpointId", d.event_id AS "eventId", v.body, v.traceparent, v.tracestate,
        d.attempts, d.tries, d.is_test OR d.attempts > d.tries AS "isOwners", d.next_attempt_at_ms AS "lockEndsAtMs",
        endpoint.account_id AS "accountId", endpoint.mode, endpoint.url, endpoint.format, endpoint.era AS generation,
        endpoint.sealed_secret AS "sealedSecret", endpoint.previous_secrets AS "previousSecrets"
    )
    SELECT locked.*, picked.next_attempt_at_ms AS "dueAtMs" FROM locked JOIN picked ON picked.delivery_id = locked."deliveryId"
    ORDER BY picked.next_attempt_at_ms, picked.delivery_id`;
}

/** Records attempts, with what the log keeps of each. */
export async function recordDeliveries(
  sql: Database | Transaction,
  replicaId: string,
  attempts: readonly Attempt<LockedDelivery, Posted>[],
): Promise<void> {
  const column = <T>(read: (attempt: (typeof attempts)[number]) => T): T[] => attempts.map(read);
  await sql`
    WITH made AS (
      SELECT * FROM unnest(
        ${column(({ delivery }) => delivery.deliveryId)}::text[],
        ${column(({ delivery }) => delivery.lockEndsAtMs)}::bigint[],
        ${column(({ delivery }) => delivery.attempts + 1)}::int[],
        ${column(({ startedAtMs }) => startedAtMs)}::bigint[],
        ${column(({ latencyMs }) => latencyMs)}::bigint[],
        ${column(({ answer }) => answer.statusCode)}::int[],
        ${column(({ answer: { error } }) => error && (whyNone(error) ?? error.message.slice(0, 200)))}::text[],
        ${column(({ answer }) => answer.said)}::text[]
      ) AS made (delivery_id, lock_ends_at_ms, attempt, started_at_ms, latency_ms, status_code, error, response)
    ), settled AS (${settle(sql, deliveryQueues, replicaId, attempts)})
    INSERT INTO webhook_attempts (delivery_id, attempt, started_at_ms, latency_ms, status_code, error, response)
    SELECT made.delivery_id, made.attempt, made.started_at_ms, made.latency_ms, made.status_code, made.error, made.response
    FROM made JOIN settled USING (delivery_id, lock_ends_at_ms)`;
  noteHints(
    sql,
    column(({ delivery: { accountId, mode, endpointId: id } }) => ({
      ...{ accountId, mode, id },
      type: 'delivery',
    })),
  );
}
