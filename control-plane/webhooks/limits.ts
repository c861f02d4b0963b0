import { limits, mustHold } from '../../shared/model/limits.ts';
import { hourMs, secondMs } from '../../shared/model/time.ts';
import { outboxLimits } from '../outbox/limits.ts';

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
  /**
   * Attempts at once to one endpoint from one replica; halved for each that has failed in a row, down to one.
   */
  webhookConcurrencyMax: 16,
  /**
   * Deliveries of one endpoint that are claimed beyond its attempts, while it answers fast with 2xx: the next
   * attempt begins without a journey to the database, and as many are recorded in one.
   */
  webhookAheadMax: 256,
  /** An idle replica looks for due deliveries this often. */
  webhookPollMs: 100,
  /** An endpoint without a URL is disabled after this long without a fetch. */
  webhookUnreadMsMax: hourMs,
  /** Attempts of one delivery that are answered: two full schedules. */
  webhookAttemptsShownMax: 20,
  /** Deliveries that one call of `recover` sends again; the answer says whether there are more. */
  webhookRecoveredPerCallMax: 10_000,
} as const;

mustHold(
  outboxLimits.aheadMsMax + 2 * limits.webhookTimeoutMs < webhooksLimits.webhookLockMs,
  'an attempt ends and is recorded well before its claim on the delivery expires',
);
mustHold(
  webhooksLimits.webhookConcurrencyMax * outboxLimits.roomShares < outboxLimits.attemptsAtOnceMax,
  'some busy endpoints have all the attempts they may have',
);
