import { type DeliveryId, idTime, type WebhookId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Delivery, DeliveryAttempt, DeliveryStatus } from '../../shared/model/webhook.ts';
import type { Page, PagePlace } from '../../shared/wire/api/paging.ts';
import type { Database, Transaction } from '../base/database.ts';
import { noteDue } from '../storage/due-work.ts';
import { readPage } from '../storage/read-page.ts';
import { webhooksLimits } from './limits.ts';

type DeliveryRow = Omit<Delivery, 'attempts'>;

const columns = (sql: Database | Transaction) => sql`
  d.delivery_id AS "deliveryId", d.webhook_id AS "webhookId", d.event_id AS "eventId", v.event, v.body, w.format, d.status,
  d.attempts AS "attemptCount", d.next_attempt_at_ms AS "nextAttemptAtMs", d.created_at_ms AS "createdAtMs"`;

/** Newest first. */
export async function listDeliveries(
  sql: Database | Transaction,
  {
    webhookId,
    status,
    page,
  }: {
    readonly webhookId: WebhookId;
    /** Null: any. */
    readonly status: DeliveryStatus | null;
    readonly page: PagePlace;
  },
): Promise<Page<Delivery>> {
  const where = sql`d.webhook_id = ${webhookId} ${withStatus(sql, status)}`;
  return readPage(page, {
    count: () => sql<{ total: number }[]>`SELECT count(*) AS total FROM webhook_deliveries d WHERE ${where}`,
    rows: async (limit) => {
      const rows = await sql<DeliveryRow[]>`
        SELECT ${columns(sql)} FROM webhook_deliveries d JOIN webhook_events v USING (event_id) JOIN webhooks w USING (webhook_id)
        WHERE ${where} ${page.behind === null ? sql`` : sql`AND d.delivery_id < ${page.behind}`}
        ORDER BY d.delivery_id DESC LIMIT ${limit} OFFSET ${page.offset}`;
      return withAttempts(sql, rows);
    },
    idOf: ({ deliveryId }) => deliveryId,
  });
}

/**
 * What has failed is few among many, and has an index of its own; the planner sees that only where the words
 * are those of the index.
 */
function withStatus(sql: Database | Transaction, status: DeliveryStatus | null) {
  if (status === null) return sql``;
  if (status === 'failed') return sql`AND d.status <> 'succeeded' AND d.attempts > 0 AND d.status = 'failed'`;
  return sql`AND d.status = ${status}`;
}

export async function findDelivery(
  sql: Database | Transaction,
  webhookId: WebhookId,
  deliveryId: DeliveryId,
): Promise<Delivery | null> {
  const rows = await sql<DeliveryRow[]>`
    SELECT ${columns(sql)} FROM webhook_deliveries d JOIN webhook_events v USING (event_id) JOIN webhooks w USING (webhook_id)
    WHERE d.delivery_id = ${deliveryId} AND d.webhook_id = ${webhookId}`;
  const [delivery] = await withAttempts(sql, rows);
  return delivery ?? null;
}

async function withAttempts(
  sql: Database | Transaction,
  rows: readonly DeliveryRow[],
): Promise<readonly Delivery[]> {
  const ids = rows.filter(({ attemptCount }) => attemptCount > 0).map(({ deliveryId }) => deliveryId);
  if (ids.length === 0) return rows.map((row) => ({ ...row, attempts: [] }));
  const attempts = await sql<(DeliveryAttempt & { readonly deliveryId: DeliveryId })[]>`
    SELECT a.delivery_id AS "deliveryId", a.attempt, a.started_at_ms AS "startedAtMs", a.latency_ms AS "latencyMs",
      a.status_code AS "statusCode", a.error, a.response
    FROM webhook_attempts a JOIN webhook_deliveries d USING (delivery_id)
    WHERE a.delivery_id = ANY(${ids}::text[]) AND a.attempt > d.attempts - ${webhooksLimits.webhookAttemptsShownMax}
    ORDER BY a.delivery_id, a.attempt DESC`;
  return rows.map((row) => ({
    ...row,
    attempts: attempts.filter(({ deliveryId }) => deliveryId === row.deliveryId),
  }));
}

/**
 * Due at once, from the beginning of the schedule. One whose attempt is under way is left alone: it is being
 * sent.
 */
export async function requeueDelivery(
  tx: Transaction,
  deliveryId: DeliveryId,
  nowMs: UnixMillis,
): Promise<void> {
  noteDue(tx, 'deliveries');
  await tx`
    UPDATE webhook_deliveries SET status = 'pending', tries = 0, next_attempt_at_ms = ${nowMs}, claimed_by = NULL
    WHERE delivery_id = ${deliveryId} AND (claimed_by IS NULL OR next_attempt_at_ms <= ${nowMs})`;
}

/**
 * The same for the oldest of all that were made since then and have failed, for good or so far. Resolves to
 * how many; where it is `webhooksLimits.webhookRecoveredPerCallMax`, there may be more.
 */
export async function requeueFailed(
  tx: Transaction,
  webhookId: WebhookId,
  { sinceMs, nowMs }: { readonly sinceMs: UnixMillis; readonly nowMs: UnixMillis },
): Promise<number> {
  noteDue(tx, 'deliveries');
  const rows = await tx`
    UPDATE webhook_deliveries SET status = 'pending', tries = 0, next_attempt_at_ms = ${nowMs}
    WHERE delivery_id = ANY (ARRAY(
      SELECT delivery_id FROM webhook_deliveries
      WHERE webhook_id = ${webhookId} AND delivery_id >= ${`dlv_${idTime(sinceMs)}`} AND status <> 'succeeded' AND attempts > 0
        AND claimed_by IS NULL AND (next_attempt_at_ms IS NULL OR next_attempt_at_ms > ${nowMs})
      ORDER BY delivery_id LIMIT ${webhooksLimits.webhookRecoveredPerCallMax}
      FOR UPDATE SKIP LOCKED
    ))
    RETURNING delivery_id`;
  return rows.length;
}
