import { type Static, Type } from 'typebox';
import { invalidRequest } from '../../errors/api-error.ts';
import { limits } from '../../model/limits.ts';
import { parseTime, renderOptionalTime, renderTime, type UnixMillis } from '../../model/time.ts';
import {
  type Delivery,
  deliveryStatuses,
  disablingReasons,
  type Webhook,
  type WebhookEvent,
  type WebhookFormat,
  webhookEvents,
  webhookFormats,
  webhookStatuses,
} from '../../model/webhook.ts';
import { cloudEventContentType, cloudEventOf } from './cloud-event.ts';
import { closed, Description, FreeForm, nullable, Timestamp } from './fields.ts';
import { renderLabels } from './labels.ts';
import { pagingQuery } from './paging.ts';
import { readOnly } from './read-only.ts';

const Events = Type.Array(Type.Enum(webhookEvents), { minItems: 1, maxItems: webhookEvents.length });

/** `POST /webhooks`. `url` null: nothing is sent; deliveries wait to be fetched. */
export const WebhookCreation = closed({
  url: nullable(Type.String({ maxLength: limits.webhookUrlCharsMax })),
  events: Events,
  /** Default: standard. */
  format: Type.Optional(Type.Enum(webhookFormats)),
  description: Type.Optional(Description),
  labels: Type.Optional(FreeForm),
});

/** The read-only members of a webhook. */
export const webhookReadOnly = { webhook_id: Type.String(), created_at: Timestamp, updated_at: Timestamp };

/** The health of the endpoint, from its deliveries. */
const webhookHealth = {
  disabled_reason: nullable(Type.Enum(disablingReasons)),
  failing_since: nullable(Timestamp),
};

/** `PUT /webhooks/:id`: only what is present changes. */
export const WebhookUpdate = closed({
  url: Type.Optional(Type.String({ maxLength: limits.webhookUrlCharsMax })),
  events: Type.Optional(Events),
  format: Type.Optional(Type.Enum(webhookFormats)),
  description: Type.Optional(Description),
  /** Replaced as a whole. */
  labels: Type.Optional(FreeForm),
  status: Type.Optional(Type.Enum(webhookStatuses)),
  ...readOnly({ ...webhookReadOnly, ...webhookHealth }),
});

/** `POST /webhooks/:id/test`. Default: the first event that the endpoint subscribes to. */
export const WebhookTest = closed({ event: Type.Optional(Type.Enum(webhookEvents)) });

/** `POST /webhooks/:id/recover` */
export const WebhookRecovery = closed({ since: Type.String() });

export const WebhookRecoveryAnswer = Type.Object({
  /** Deliveries to be sent again. */
  requeued: Type.Integer(),
  /** True: more remain, call again. */
  has_more: Type.Boolean(),
});

export const DeliveryQuery = Type.Object({
  ...pagingQuery,
  status: Type.Optional(Type.Enum(deliveryStatuses)),
});

export const WebhookAnswer = Type.Object({
  ...webhookReadOnly,
  ...webhookHealth,
  url: nullable(Type.String()),
  events: Events,
  format: Type.Enum(webhookFormats),
  description: Description,
  /** Only if it has some. */
  labels: Type.Optional(FreeForm),
  status: Type.Enum(webhookStatuses),
});

/** With `secret`, which is shown only once: a replay of the answer (contract §12) lacks it. */
export const NewWebhookAnswer = Type.Evaluate(
  Type.Intersect([WebhookAnswer, Type.Object({ secret: Type.Optional(Type.String()) })]),
);

export const WebhookDeletion = Type.Object({
  webhook_id: Type.String(),
  deleted: Type.Literal(true),
  deleted_at: Timestamp,
});

const AttemptAnswer = Type.Object({
  attempt: Type.Integer(),
  started_at: Timestamp,
  latency_ms: Type.Integer(),
  status_code: nullable(Type.Integer()),
  error: nullable(Type.String()),
  response: nullable(Type.String()),
});

export const DeliveryAnswer = Type.Object({
  delivery_id: Type.String(),
  webhook_id: Type.String(),
  event_id: Type.String(),
  event: Type.Enum(webhookEvents),
  status: Type.Enum(deliveryStatuses),
  payload: FreeForm,
  attempt_count: Type.Integer(),
  attempts: Type.Array(AttemptAnswer),
  next_attempt_at: nullable(Timestamp),
  created_at: Timestamp,
});
export type DeliveryAnswer = Static<typeof DeliveryAnswer>;

/** The names of the events without duplicates, in the order given. */
export const distinctEvents = (events: readonly WebhookEvent[]): readonly WebhookEvent[] => [
  ...new Set(events),
];

export function parseRecovery(body: Static<typeof WebhookRecovery>): UnixMillis {
  const sinceMs = parseTime(body.since);
  if (sinceMs === null) throw invalidRequest('since', 'since must be an ISO 8601 date-time.');
  return sinceMs;
}

export const renderWebhook = (webhook: Webhook): Static<typeof WebhookAnswer> => ({
  webhook_id: webhook.webhookId,
  url: webhook.url,
  events: [...webhook.events],
  format: webhook.format,
  description: webhook.description,
  ...renderLabels(webhook.labels),
  status: webhook.status,
  disabled_reason: webhook.disabledReason,
  failing_since: renderOptionalTime(webhook.failingSinceMs),
  created_at: renderTime(webhook.createdAtMs),
  updated_at: renderTime(webhook.updatedAtMs),
});

/** `source`: as `sentBody` takes it. */
export const renderDelivery = (delivery: Delivery, source: string): DeliveryAnswer => ({
  delivery_id: delivery.deliveryId,
  webhook_id: delivery.webhookId,
  event_id: delivery.eventId,
  event: delivery.event,
  status: delivery.status,
  payload: JSON.parse(sentBody({ ...delivery, source })),
  attempt_count: delivery.attemptCount,
  attempts: delivery.attempts.map((each) => ({
    attempt: each.attempt,
    started_at: renderTime(each.startedAtMs),
    latency_ms: each.latencyMs,
    status_code: each.statusCode,
    error: each.error,
    response: each.response,
  })),
  next_attempt_at: renderOptionalTime(delivery.nextAttemptAtMs),
  created_at: renderTime(delivery.createdAtMs),
});

/** The body of a delivery (contract §14). The result is signed and sent byte for byte. */
export const renderEvent = (happened: {
  readonly event: WebhookEvent;
  readonly timestampMs: UnixMillis;
  readonly data: Readonly<Record<string, unknown>>;
}): string =>
  JSON.stringify({
    event: happened.event,
    timestamp: renderTime(happened.timestampMs),
    data: happened.data,
  });

/** The bytes of a delivery. `source`: the origin of the service, by which CloudEvents name it. */
export const sentBody = (delivery: {
  readonly eventId: string;
  /** In the standard format. */
  readonly body: string;
  readonly format: WebhookFormat;
  readonly source: string;
}): string =>
  delivery.format === 'standard'
    ? delivery.body
    : cloudEventOf(delivery.body, { id: delivery.eventId, source: delivery.source });

/** The headers of a delivery, of Standard Webhooks. */
export const webhookHeaders = (message: {
  readonly id: string;
  readonly format: WebhookFormat;
  readonly timestampS: number;
  readonly signatures: readonly string[];
}): Readonly<Record<string, string>> => ({
  'content-type': message.format === 'standard' ? 'application/json' : cloudEventContentType,
  'webhook-id': message.id,
  'webhook-timestamp': String(message.timestampS),
  'webhook-signature': message.signatures.join(' '),
});
