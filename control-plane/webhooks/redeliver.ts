import { ApiError } from '../../shared/errors/api-error.ts';
import { must } from '../../shared/errors/assert.ts';
import type { DeliveryId, WebhookId } from '../../shared/model/ids.ts';
import type { Owner } from '../../shared/model/owner.ts';
import { renderTime, type UnixMillis } from '../../shared/model/time.ts';
import type { Delivery, Webhook, WebhookEvent } from '../../shared/model/webhook.ts';
import { renderEvent } from '../../shared/wire/api/webhook.ts';
import { sampleData } from '../../shared/wire/api/webhook-samples.ts';
import { type AuditedChange, administer } from '../audit/administer.ts';
import type { Transaction } from '../base/database.ts';
import type { Caller } from '../http/caller.ts';
import { findDelivery, requeueDelivery, requeueFailed } from './delivery-store.ts';
import type { WebhookDeps } from './deps.ts';
import { queueEvents } from './emit-events.ts';
import { webhooksLimits } from './limits.ts';
import { findWebhook } from './webhook-store.ts';

type SendDeps = Pick<WebhookDeps, 'sql' | 'clock' | 'random' | 'bus' | 'signingKeys'>;

/**
 * Sends an event with sample data, as if it had happened, to this endpoint and to no other. Default: the
 * first event that it subscribes to.
 */
export async function sendTest(
  deps: SendDeps,
  caller: Caller,
  { webhookId, event }: { readonly webhookId: WebhookId; readonly event: WebhookEvent | null },
): Promise<Delivery> {
  return administer(deps, caller, async (tx) => {
    const webhook = await findEnabled(tx, caller, webhookId);
    const nowMs = deps.clock.now();
    const sent = event ?? must(webhook.events[0], 'an endpoint subscribes to something');
    const body = renderEvent({ event: sent, timestampMs: nowMs, data: sampleData(sent) });
    const to = [{ webhookId, isSentTo: webhook.url !== null }];
    const [deliveryId] = await queueEvents(tx, deps, {
      nowMs,
      queued: [{ event: sent, body, to, isTest: true }],
    });
    const made = must(deliveryId, 'an event for one endpoint is one delivery');
    const delivery = must(await findDelivery(tx, webhookId, made), 'the delivery was just put there');
    return { result: delivery, audited: sentOnRecord('testWebhook', delivery) };
  });
}

/**
 * Sends a delivery again, whatever came of it, at once and on a schedule of its own. The receiver knows it by
 * the same `webhook-id`.
 */
export async function resend(
  deps: SendDeps,
  caller: Caller,
  { webhookId, deliveryId }: { readonly webhookId: WebhookId; readonly deliveryId: DeliveryId },
): Promise<Delivery> {
  return administer(deps, caller, async (tx) => {
    await findSent(tx, caller, webhookId);
    if ((await findDelivery(tx, webhookId, deliveryId)) === null) throw new ApiError('delivery_not_found');
    await requeueDelivery(tx, deliveryId, deps.clock.now());
    const delivery = must(await findDelivery(tx, webhookId, deliveryId), 'the delivery was just there');
    return { result: delivery, audited: sentOnRecord('resendDelivery', delivery) };
  });
}

/** Sends all again that was made since then and has failed, for good or so far. */
export async function recover(
  deps: SendDeps,
  caller: Caller,
  { webhookId, sinceMs }: { readonly webhookId: WebhookId; readonly sinceMs: UnixMillis },
): Promise<{ readonly requeued: number; readonly hasMore: boolean }> {
  return administer(deps, caller, async (tx) => {
    await findSent(tx, caller, webhookId);
    const requeued = await requeueFailed(tx, webhookId, { sinceMs, nowMs: deps.clock.now() });
    return {
      result: { requeued, hasMore: requeued === webhooksLimits.webhookRecoveredPerCallMax },
      audited: {
        operation: 'recoverWebhook',
        target: webhookId,
        before: null,
        after: { webhook_id: webhookId, since: renderTime(sinceMs), requeued },
      },
    };
  });
}

/** What was sent is in the delivery; the audit says that it was. */
const sentOnRecord = (
  operation: 'testWebhook' | 'resendDelivery',
  { webhookId, deliveryId, event }: Delivery,
): AuditedChange => ({
  operation,
  target: webhookId,
  before: null,
  after: { webhook_id: webhookId, delivery_id: deliveryId, event },
});

async function findEnabled(tx: Transaction, owner: Owner, webhookId: WebhookId): Promise<Webhook> {
  const webhook = await findWebhook(tx, owner, webhookId);
  if (webhook === null) throw new ApiError('webhook_not_found');
  if (webhook.status === 'enabled') return webhook;
  throw new ApiError('invalid_request', { message: 'This webhook is disabled; enable it first.' });
}

async function findSent(tx: Transaction, owner: Owner, webhookId: WebhookId): Promise<Webhook> {
  const webhook = await findEnabled(tx, owner, webhookId);
  if (webhook.url !== null) return webhook;
  throw new ApiError('invalid_request', {
    message: 'This webhook has no url, so nothing is sent to it: fetch its deliveries.',
  });
}
