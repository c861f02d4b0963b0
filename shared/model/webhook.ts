import type { AccountId, DeliveryId, EventId, WebhookId } from './ids.ts';
import type { Mode } from './mode.ts';
import { hourMs, minuteMs, secondMs, type UnixMillis } from './time.ts';

/** What subscribers can be notified of (contract §14). */
export const webhookEvents = [
  'passport.verified',
  'passport.denied',
  'passport.revoked',
  'gate.created',
  'spend_limit.approaching',
  'approval.requested',
  'approval.resolved',
] as const;
export type WebhookEvent = (typeof webhookEvents)[number];

export const webhookStatuses = ['enabled', 'disabled'] as const;
export type WebhookStatus = (typeof webhookStatuses)[number];

/**
 * Why nothing is sent to an endpoint: `owner` disabled it; `gone`: it answered 410; `failing`: no attempt
 * succeeded for `webhooksLimits.webhookFailingMsMax`; `unread`: nobody fetched from an endpoint without a
 * URL, until somebody does.
 */
export const disablingReasons = ['owner', 'gone', 'failing', 'unread'] as const;
export type DisablingReason = (typeof disablingReasons)[number];

/**
 * An endpoint that subscribes to events of its account and mode. Its secrets lie sealed in the database and
 * nowhere else.
 */
export interface Webhook {
  readonly webhookId: WebhookId;
  readonly accountId: AccountId;
  readonly mode: Mode;
  /** Null: nothing is sent; deliveries wait to be fetched, as `agent-trust webhooks listen` does. */
  readonly url: string | null;
  readonly events: readonly WebhookEvent[];
  readonly description: string | null;
  readonly status: WebhookStatus;
  /** Null while it is enabled. */
  readonly disabledReason: DisablingReason | null;
  /**
   * When the first attempt failed after the last one that succeeded; null: the last one succeeded, or there
   * was none.
   */
  readonly failingSinceMs: UnixMillis | null;
  readonly createdAtMs: UnixMillis;
  readonly updatedAtMs: UnixMillis;
}

/**
 * `pending` is waiting for its next attempt or under way; `failed` is given up until somebody sends it again.
 */
export const deliveryStatuses = ['pending', 'succeeded', 'failed'] as const;
export type DeliveryStatus = (typeof deliveryStatuses)[number];

/** One try to hand an event to an endpoint. */
export interface DeliveryAttempt {
  readonly attempt: number;
  readonly startedAtMs: UnixMillis;
  readonly latencyMs: number;
  /** Null: there was no answer. */
  readonly statusCode: number | null;
  /** Why there was no answer, in a few words; null where there was one. */
  readonly error: string | null;
  /** The first KiB of the answer, without what looks like a secret; null where there was none. */
  readonly response: string | null;
}

/** An event on its way to one endpoint. */
export interface Delivery {
  readonly deliveryId: DeliveryId;
  readonly webhookId: WebhookId;
  /** The `webhook-id` header: the same in every attempt, and at every endpoint that gets the event. */
  readonly eventId: EventId;
  readonly event: WebhookEvent;
  /** What is sent, byte for byte. */
  readonly body: string;
  readonly status: DeliveryStatus;
  /** Newest first; of many only the newest. */
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
