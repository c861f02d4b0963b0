import { limits, mustHold } from '../../shared/model/limits.ts';
import { dayMs, hourMs, minuteMs, secondMs } from '../../shared/model/time.ts';

/** Bounds of this room alone, each with its reason. What endpoints of one kind have is in their own room. */
export const outboxLimits = {
  /** Of an answer that much is read, and kept where there is a log of attempts. */
  answerBytesMax: 1024,
  /**
   * Attempts at once from one replica, and as many connections to one host: endpoints that share it do not
   * wait for each other.
   */
  attemptsAtOnceMax: 512,
  /**
   * One endpoint takes at most this part of the attempts that are left: however many hang at once, the next
   * one still finds some.
   */
  roomShares: 8,
  /**
   * What is claimed ahead for all endpoints: bodies in memory. One takes at most a `roomShares`th of what is
   * left.
   */
  aheadAtOnceMax: 2_048,
  /** As many are claimed ahead as the endpoint takes in this time, by its last answer: a few journeys. */
  aheadMsAimed: 400,
  /**
   * What was claimed ahead and has not begun after this goes back to the queue. So long an endpoint that is
   * changed, disabled or deleted may still get what was claimed before.
   */
  aheadMsMax: 2 * secondMs,
  /**
   * A connection without a request is closed after this, whatever its server asks for: strangers choose how
   * many hosts there are.
   */
  keepAliveMs: 2 * secondMs,
  /** Endpoints with nothing under way, of which it is remembered how they answered last. */
  endpointsMax: 10_000,
  /**
   * Queues looked at in one step, from where the last step ended: with thousands of failing endpoints a step
   * stays short.
   */
  queuesPerLookMax: 64,
  /**
   * `Retry-After` of an endpoint counts up to here: one that wants more has made a mistake, or is disabled
   * soon.
   */
  retryAfterMsMax: hourMs,
  /** An endpoint at which no attempt has succeeded for so long is disabled. */
  failingMsMax: 3 * dayMs,
  /** Rows are kept for so long; more than an approval can take. */
  keptMs: 30 * dayMs,
  /** Old ones removed at a time, and how often: faster than they come, in short statements. */
  rowsPerTrimMax: 5_000,
  trimIntervalMs: minuteMs,
  /**
   * At the stop of a replica: time for the attempts under way; the others are given back and go out again
   * elsewhere.
   */
  drainMs: 3 * secondMs,
} as const;

mustHold(
  outboxLimits.drainMs < limits.drainMsMax,
  'the attempts in flight can finish during an orderly stop',
);
mustHold(outboxLimits.keptMs > 3 * limits.approvalExpiryMsMax, 'no message of an open approval is removed');
