import { limits, mustHold } from '../../shared/model/limits.ts';
import { dayMs, hourMs, minuteMs, secondMs } from '../../shared/model/time.ts';

/** Bounds of this room alone, each with its reason. */
export const webhooksLimits = {
  /** Endpoints of one account in one mode: each multiplies what every event of the account writes. */
  webhooksPerAccountMax: 16,
  /**
   * Secrets of one endpoint that sign on beside the newest: whose answer got lost rolls again, twice or
   * thrice; each makes every delivery's header longer.
   */
  webhookPreviousSecretsMax: 4,
  /** After this the delivery of a replica that died during an attempt is free for others. */
  webhookLockMs: 30 * secondMs,
  /** Of an answer that much is kept in the log of attempts. */
  webhookAnswerBytesMax: 1024,
  /**
   * Attempts at once to one endpoint from one replica; halved for each that has failed in a row, down to one.
   */
  webhookConcurrencyMax: 16,
  /**
   * Attempts at once from one replica, and as many connections to one host: endpoints that share it do not
   * wait for each other.
   */
  webhookAttemptsAtOnceMax: 512,
  /**
   * One endpoint takes at most this part of the attempts that are left: however many hang at once, the next
   * one still finds some.
   */
  webhookRoomShares: 8,
  /**
   * Deliveries of one endpoint that are claimed beyond its attempts, while it answers fast with 2xx: the next
   * attempt begins without a journey to the database, and as many are recorded in one.
   */
  webhookAheadMax: 256,
  /** Those of all endpoints: bodies in memory. One takes at most a `webhookRoomShares`th of what is left. */
  webhookAheadAtOnceMax: 2_048,
  /** As many are claimed ahead as the endpoint takes in this time, by its last answer: a few journeys. */
  webhookAheadMsAimed: 400,
  /**
   * What was claimed ahead and has not begun after this goes back to the queue. So long an endpoint that is
   * changed, disabled or deleted may still get what was claimed before.
   */
  webhookAheadMsMax: 2 * secondMs,
  /**
   * A connection without a request is closed after this, whatever its server asks for: strangers choose how
   * many hosts there are.
   */
  webhookKeepAliveMs: 2 * secondMs,
  /**
   * Endpoints that failed last and have nothing under way, remembered so that they get fewer attempts at
   * once.
   */
  webhookLoadsMax: 10_000,
  /**
   * Queues looked at in one step, from where the last step ended: with thousands of failing endpoints a step
   * stays short.
   */
  webhookQueuesPerLookMax: 64,
  /** An idle replica looks for due deliveries this often. */
  webhookPollMs: 100,
  /**
   * `Retry-After` of an endpoint counts up to here: one that wants more has made a mistake, or is disabled
   * soon.
   */
  webhookRetryAfterMsMax: hourMs,
  /** An endpoint at which no attempt has succeeded for so long is disabled. */
  webhookFailingMsMax: 3 * dayMs,
  /** An endpoint without a URL is disabled after this long without a fetch. */
  webhookUnreadMsMax: hourMs,
  /** Attempts of one delivery that are answered: two full schedules. */
  webhookAttemptsShownMax: 20,
  /** Deliveries that one call of `recover` sends again; the answer says whether there are more. */
  webhookRecoveredPerCallMax: 10_000,
  /** Events, deliveries and attempts are kept for so long. */
  webhookDeliveryKeptMs: 30 * dayMs,
  /** Old ones removed at a time, and how often: faster than they come, in short statements. */
  webhookDeliveriesPerTrimMax: 5_000,
  webhookTrimIntervalMs: minuteMs,
  /**
   * At the stop of a replica: time for the attempts under way; the others are given back and go out again
   * elsewhere.
   */
  webhookDrainMs: 3 * secondMs,
} as const;

mustHold(
  webhooksLimits.webhookAheadMsMax + 2 * limits.webhookTimeoutMs < webhooksLimits.webhookLockMs,
  'an attempt ends and is recorded well before its claim on the delivery expires',
);
mustHold(
  webhooksLimits.webhookDrainMs < limits.drainMsMax,
  'the attempts in flight can finish during an orderly stop',
);
mustHold(
  webhooksLimits.webhookConcurrencyMax * webhooksLimits.webhookRoomShares <
    webhooksLimits.webhookAttemptsAtOnceMax,
  'some busy endpoints have all the attempts they may have',
);
