import { dayMs, minuteMs, secondMs } from '../../shared/model/time.ts';

/** Bounds of this room alone, each with its reason. */
export const sessionsLimits = {
  /** Browsers and profiles of one person; the longest unused one ends where there would be more. */
  sessionsPerUserMax: 20,
  /** Sessions that are over, removed for each new one: they go faster than they come. */
  sessionsPerTrimMax: 10,
  /** `last_seen_at` is written at most this often, and no more rarely than ten times before the idle end. */
  seenWriteIntervalMsMax: minuteMs,
  /** Such writes under way, of a database that answers slowly; a later request of the session notes it. */
  seenWritesMax: 256,
  /** Of the browser's user agent: the distinguishing part. */
  userAgentCharsMax: 200,
  /** From the beginning of a login in several steps to its end: a person finds a phone, or a password. */
  loginChallengeMs: 10 * minuteMs,
  /** What the clocks of two control planes may differ by. */
  clockSlackMs: secondMs,
  /** Used challenges whose time is over, removed for each new one: they go faster than they come. */
  usedChallengesPerTrimMax: 10,
  /** Browsers bound the life of a cookie by 400 days. */
  deviceCookieMs: 400 * dayMs,
} as const;
