/**
 * Room `control-plane/webhooks`: webhooks: events go into their queues here, and out by the outbox of
 * `deliver.ts`. Endpoints in `webhook-store.ts`.
 */

import type { DeliveryId, WebhookId } from '../../shared/model/ids.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { WebhookEvent } from '../../shared/model/webhook.ts';
import { currentTrace } from '../../shared/runtime/current-trace.ts';
import { renderEvent } from '../../shared/wire/api/webhook.ts';
import type { Transaction } from '../base/database.ts';
import { databaseNowMs } from '../storage/database-clock.ts';
import { noteDue } from '../storage/due-work.ts';
import type { WebhookDeps } from './deps.ts';

/** An event that endpoints may subscribe to. */
export interface NewEvent {
  readonly event: WebhookEvent;
  /** Owners whose endpoints get it; duplicates are dropped. */
  readonly to: readonly Owner[];
  /** As it is sent; its times rendered. */
  readonly data: Readonly<Record<string, unknown>>;
  readonly timestampMs: UnixMillis;
}

/**
 * Puts events into the outbox, in the transaction that causes them: they are delivered if it commits, and
 * never were if it does not. Without subscribers this is one index look-up and no write; for an empty list it
 * is nothing at all.
 *
 * Call it late, but before rows that many transactions share: it takes no lock that others wait for.
 */
export async function emitEvents(
  tx: Transaction,
  deps: Pick<WebhookDeps, 'random'>,
  events: readonly NewEvent[],
): Promise<void> {
  const subscribers = await findSubscribers(tx, {
    owners: events.flatMap(({ to }) => to),
    events: events.map(({ event }) => event),
  });
  if (subscribers !== null) await emitTo(tx, deps, subscribers, events);
}

/** Endpoints that subscribe to some of the events. */
export interface Subscribers {
  readonly nowMs: UnixMillis;
  readonly of: (owner: Owner, event: WebhookEvent) => readonly Subscriber[];
}

interface Subscriber {
  readonly webhookId: WebhookId;
  /** False: deliveries wait to be fetched. */
  readonly isSentTo: boolean;
}

/** Null: no subscribers. For callers that need further look-ups to build the event; see `emitTo`. */
export async function findSubscribers(
  tx: Transaction,
  asked: { readonly owners: readonly Owner[]; readonly events: readonly WebhookEvent[] },
): Promise<Subscribers | null> {
  const owners = [...new Map(asked.owners.map((owner) => [ownerKey(owner), owner])).values()];
  if (owners.length === 0 || asked.events.length === 0) return null;
  const rows = await tx<SubscriberRow[]>`
    SELECT w.webhook_id AS "webhookId", w.account_id AS "accountId", w.mode, w.events, w.url IS NOT NULL AS "isSentTo",
      ${databaseNowMs(tx)} AS "nowMs"
    FROM unnest(${owners.map(({ accountId }) => accountId)}::text[], ${owners.map(({ mode }) => mode)}::text[])
      AS o (account_id, mode)
    JOIN webhooks w USING (account_id, mode)
    WHERE w.status = 'enabled' AND w.events && ${[...new Set(asked.events)]}::text[]`;
  const [first] = rows;
  if (first === undefined) return null;
  const byOwner = new Map<string, SubscriberRow[]>();
  for (const row of rows) {
    const key = ownerKey(row);
    byOwner.set(key, [...(byOwner.get(key) ?? []), row]);
  }
  return {
    nowMs: first.nowMs,
    of: (owner, event) => (byOwner.get(ownerKey(owner)) ?? []).filter(({ events }) => events.includes(event)),
  };
}

interface SubscriberRow extends Owner, Subscriber {
  readonly events: readonly WebhookEvent[];
  readonly nowMs: UnixMillis;
}

const ownerKey = ({ accountId, mode }: Owner): string => `${accountId}/${mode}`;

/** The second half of `emitEvents`. */
export async function emitTo(
  tx: Transaction,
  { random }: Pick<WebhookDeps, 'random'>,
  { nowMs, of }: Subscribers,
  events: readonly NewEvent[],
): Promise<void> {
  const queued = events.flatMap((event): QueuedEvent[] => {
    const to = new Map(
      event.to.flatMap((owner) => of(owner, event.event)).map((each) => [each.webhookId, each]),
    );
    if (to.size === 0) return [];
    return [{ event: event.event, body: renderEvent(event), to: [...to.values()] }];
  });
  await queueEvents(tx, { random }, { nowMs, queued });
}

export interface QueuedEvent {
  readonly event: WebhookEvent;
  readonly body: string;
  readonly to: readonly Subscriber[];
  readonly isTest?: boolean;
}

/**
 * Writes events and a delivery for each endpoint, all due at once, with two statements. Resolves to the ids
 * of the deliveries.
 */
export async function queueEvents(
  tx: Transaction,
  { random }: Pick<WebhookDeps, 'random'>,
  { nowMs, queued }: { readonly nowMs: UnixMillis; readonly queued: readonly QueuedEvent[] },
): Promise<readonly DeliveryId[]> {
  if (queued.length === 0) return [];
  const events = queued.map((each) => ({ ...each, eventId: random.newId('evt', nowMs) }));
  const deliveries = events.flatMap(({ eventId, to, isTest = false }) =>
    to.map((each) => ({ ...each, eventId, isTest, deliveryId: random.newId('dlv', nowMs) })),
  );
  const trace = currentTrace();
  noteDue(tx, 'deliveries');
  await tx`
    INSERT INTO webhook_events (event_id, event, body, traceparent, tracestate)
    SELECT *, ${trace?.traceparent ?? null}::text, ${trace?.tracestate || null}::text FROM unnest(
      ${events.map(({ eventId }) => eventId)}::text[],
      ${events.map(({ event }) => event)}::text[],
      ${events.map(({ body }) => body)}::text[])`;
  await tx`
    INSERT INTO webhook_deliveries (delivery_id, webhook_id, event_id, status, attempts, tries, next_attempt_at_ms, created_at_ms, is_test)
    SELECT delivery_id, webhook_id, event_id, 'pending', 0, 0, CASE WHEN is_sent_to = 1 THEN ${nowMs}::bigint END, ${nowMs}, is_test = 1
    FROM unnest(
      ${deliveries.map(({ deliveryId }) => deliveryId)}::text[],
      ${deliveries.map(({ webhookId }) => webhookId)}::text[],
      ${deliveries.map(({ eventId }) => eventId)}::text[],
      ${deliveries.map(({ isSentTo }) => (isSentTo ? 1 : 0))}::int[],
      ${deliveries.map(({ isTest }) => (isTest ? 1 : 0))}::int[]
    ) AS new (delivery_id, webhook_id, event_id, is_sent_to, is_test)`;
  return deliveries.map(({ deliveryId }) => deliveryId);
}
