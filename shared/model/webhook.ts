import type { AccountId, DeliveryId, EventId, WebhookId } from './ids.ts';
import type { Labels } from './labels.ts';
import type { Mode } from './mode.ts';
import { hourMs, minuteMs, secondMs, type UnixMillis } from './time.ts';

/** The events of webhooks (contract §14). */
export const webhookEvents = [
  'passport.verified',
  'passport.denied',
  'passport.revoked',
  'gate.created',
  'shadow.ended',
  'spend_limit.approaching',
  'approval.requested',
  'approval.resolved',
  'hold.expired',
  'outcome.refused',
  'mcp_pin.changed',
  'history.regressed',
] as const;
export type WebhookEvent = (typeof webhookEvents)[number];

/** What is sent: `standard` is the body of contract §14, `cloudevents` a CloudEvent with the same data. */
export const webhookFormats = ['standard', 'cloudevents'] as const;
export type WebhookFormat = (typeof webhookFormats)[number];

export const webhookStatuses = ['enabled', 'disabled'] as const;
export type WebhookStatus = (typeof webhookStatuses)[number];

/**
 * Why nothing is sent to an endpoint: `owner` disabled it; `gone`: it answered 410; `failing`: no attempt
 * succeeded for `outboxLimits.failingMsMax`; `unread`: no fetch from an endpoint without a URL; the
 * next fetch enables it.
 */
export const disablingReasons = ['owner', 'gone', 'failing', 'unread'] as const;
export type DisablingReason = (typeof disablingReasons)[number];

/**
 * An endpoint that subscribes to events of its account and mode. Its secrets are stored sealed, in the
 * database only.
 */
export interface Webhook {
  readonly webhookId: WebhookId;
  readonly accountId: AccountId;
  readonly mode: Mode;
  /** Null: nothing is sent; deliveries wait to be fetched, as `agent-trust webhooks listen` does. */
  readonly url: string | null;
  readonly events: readonly WebhookEvent[];
  /** Of what is sent from now on, also of what waits. */
  readonly format: WebhookFormat;
  readonly description: string | null;
  readonly labels: Labels;
  readonly status: WebhookStatus;
  /** Null while it is enabled. */
  readonly disabledReason: DisablingReason | null;
  /** The first failure after the last success; null: the last attempt succeeded, or there was none. */
  readonly failingSinceMs: UnixMillis | null;
  readonly createdAtMs: UnixMillis;
  readonly updatedAtMs: UnixMillis;
}

/** `pending`: an attempt is due or in flight; `failed`: given up until it is sent again. */
export const deliveryStatuses = ['pending', 'succeeded', 'failed'] as const;
export type DeliveryStatus = (typeof deliveryStatuses)[number];

/** One try to hand an event to an endpoint. */
export interface DeliveryAttempt {
  readonly attempt: number;
  readonly startedAtMs: UnixMillis;
  readonly latencyMs: number;
  /** Null: there was no answer. */
  readonly statusCode: number | null;
  /** Why there was no answer, in a few words; null if there was one. */
  readonly error: string | null;
  /** The first KiB of the answer without apparent secrets; null if there was none. */
  readonly response: string | null;
}

/** An event on its way to one endpoint. */
export interface Delivery {
  readonly deliveryId: DeliveryId;
  readonly webhookId: WebhookId;
  /** The `webhook-id` header: the same in every attempt, and at every endpoint that gets the event. */
  readonly eventId: EventId;
  readonly event: WebhookEvent;
  /** The sent bytes in the standard format. */
  readonly body: string;
  /** Of the endpoint. */
  readonly format: WebhookFormat;
  readonly status: DeliveryStatus;
  /** The newest attempts, newest first. */
  readonly attempts: readonly DeliveryAttempt[];
  readonly attemptCount: number;
  /** Null: none is planned. */
  readonly nextAttemptAtMs: UnixMillis | null;
  readonly createdAtMs: UnixMillis;
}

/**
 * The pause before each attempt, from the one before it (contract §14). After the last the delivery has
 * failed.
 */
export const attemptPausesMs: readonly number[] = [
  0,
  5 * secondMs,
  5 * minuteMs,
  30 * minuteMs,
  2 * hourMs,
  5 * hourMs,
  10 * hourMs,
  14 * hourMs,
  20 * hourMs,
  24 * hourMs,
];
