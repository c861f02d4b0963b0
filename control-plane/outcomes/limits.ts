import { mustHold } from '../../shared/model/limits.ts';
import { dayMs, minuteMs, secondMs } from '../../shared/model/time.ts';

/** Bounds used only in this room, each with its reason. */
export const outcomesLimits = {
  /** A hold ends within 5 s of its time (contract §19), also where one replica is slow or away. */
  sweepIntervalMs: secondMs,
  /** Holds that end in one transaction, which locks their chains. More follow at once. */
  holdsPerSweepMax: 200,
  /** A hold that cannot be ended is tried again after this long, so that it does not block the others. */
  putOffMs: minuteMs,
  /** Between two looks for outcomes that sidecars have shipped. */
  applyIntervalMs: 250,
  /** A hold with all its extensions, from the decision (contract §19). */
  holdMsMax: 30 * dayMs,
  /** How long an outcome waits for its PERMIT, whose sidecar may be cut off. */
  outcomeWaitsMsMax: 7 * dayMs,
  /** Outcomes applied in one transaction: a batch of a sidecar takes few. */
  outcomesPerTurnMax: 500,
  /** How long a PERMIT that is not on record is awaited between two looks, at most. */
  lookAgainMsMax: minuteMs,
  /** Refused outcomes are listed this long: for a person to look into, as with deliveries of webhooks. */
  refusedKeptMs: 90 * dayMs,
  /**
   * A PERMIT takes outcomes and refunds this long: what comes later moves no money of any window, and is for
   * the books.
   */
  permitsChangeMs: 365 * dayMs,
  /** Then what has become of it is in its chain alone. Longer than the above. */
  permitsKeptMs: 400 * dayMs,
  /** Rows that a trim removes. */
  rowsPerTrimMax: 1_000,
  /** Between two trims. */
  trimIntervalMs: minuteMs,
} as const;

mustHold(
  outcomesLimits.sweepIntervalMs * 2 < 5 * secondMs,
  'a hold ends within 5 s of its time also where one sweep fails',
);
mustHold(
  outcomesLimits.permitsKeptMs > outcomesLimits.permitsChangeMs + dayMs,
  'what a PERMIT counts is known for as long as it may change',
);
mustHold(
  outcomesLimits.lookAgainMsMax < outcomesLimits.outcomeWaitsMsMax,
  'an outcome that waits is looked at again before its time is over',
);
