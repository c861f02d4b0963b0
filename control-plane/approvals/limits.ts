import { minuteMs, secondMs } from '../../shared/model/time.ts';

/** Bounds of this room alone, each with its reason. */
export const approvalsLimits = {
  /**
   * Of one passport at one gate: more than anybody looks through, and one that asks without end neither fills
   * the list nor keeps other gates from asking.
   */
  approvalsPendingMax: 100,
  /**
   * An approval whose time is over is written as expired, and its money freed, at most this long after;
   * within twice that with a busy database.
   */
  approvalSweepIntervalMs: secondMs,
  /** One that cannot be written as expired is tried again, and reported again, after this. */
  approvalPutOffMs: minuteMs,
} as const;
