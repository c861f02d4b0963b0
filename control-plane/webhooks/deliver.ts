import { attemptPausesMs } from '../../shared/model/webhook.ts';
import type { Posted } from '../outbox/attempt.ts';
import type { Outbox } from '../outbox/outbox.ts';
import { startOutbox } from '../outbox/run-outbox.ts';
import { deliveryQueues, type LockedDelivery, lockDeliveries, recordDeliveries } from './delivery-queue.ts';
import type { WebhookDeps } from './deps.ts';
import { webhooksLimits } from './limits.ts';
import { sendDelivery } from './send-delivery.ts';
import { trimDeliveries } from './trim-deliveries.ts';

/** `pollMs`: how often an idle replica looks for due deliveries. */
type DeliverDeps = WebhookDeps & { readonly pollMs?: number };

/** Delivers webhooks; see `startOutbox`. */
export const startDeliveries = (deps: DeliverDeps): { stop(): Promise<void> } =>
  startOutbox(deps, webhookOutbox(deps));

export const webhookOutbox = (deps: DeliverDeps): Outbox<LockedDelivery, Posted> => ({
  ...{ queues: deliveryQueues, name: 'webhook deliveries' },
  bounds: {
    concurrencyMax: webhooksLimits.webhookConcurrencyMax,
    aheadMax: webhooksLimits.webhookAheadMax,
    lockMs: webhooksLimits.webhookLockMs,
    pollMs: deps.pollMs ?? webhooksLimits.webhookPollMs,
  },
  counters: {
    attempts: {
      name: 'agent_trust_webhook_attempts_total',
      help: 'Attempts to deliver an event to an endpoint, by outcome.',
      labelNames: ['outcome'],
    },
    labelsOf: ({ answer: { hasSucceeded } }) => ({ outcome: hasSucceeded ? 'succeeded' : 'failed' }),
    disabled: {
      name: 'agent_trust_webhooks_disabled_total',
      help: 'Endpoints that were disabled because they are gone or keep failing, by reason.',
    },
  },
  pauseMs: (tries) => attemptPausesMs[tries] ?? null,
  lock: (claim) => lockDeliveries(deps.sql, claim),
  send: (delivery, how) => sendDelivery(deps, delivery, how),
  record: (attempts) => recordDeliveries(deps.sql, deps.replicaId, attempts),
  trim: (nowMs) => trimDeliveries(deps.sql, nowMs),
});
