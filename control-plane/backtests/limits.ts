import { mustHold } from '../../shared/model/limits.ts';
import { dayMs, hourMs, secondMs } from '../../shared/model/time.ts';

/** Bounds used only in this room, each with its reason. */
export const backtestsLimits = {
  /** From the beginning, where a caller names none. */
  sinceMsDefault: 30 * dayMs,
  /** A report is a figure of its day; after a week it is made anew. */
  keptMs: 7 * dayMs,
  /** Of one account, the newest: a report has some ten kilobytes. */
  keptMax: 100,
  /** Rows that one look removes. */
  trimRowsMax: 100,
  /**
   * A replica that has not said so long that it goes on is gone: a page of records takes at most 30 s
   * (`databaseStatementMsMax`).
   */
  workerMs: 60 * secondMs,
  /** Progress is written this often. */
  progressMs: secondMs,
  /** Beside the decisions of this replica: a hundred million records. */
  runMsMax: hourMs,
  /** A report of a shadow, which somebody waits for: some 200,000 records. */
  reportMsMax: 10 * secondMs,
  /** Without a pulse. */
  lookMs: 5 * secondMs,
  /** Approvals of one time are put in order in memory: 50 MB. */
  approvalsMax: 100_000,
  /** Compiled passports and policies at once: about 20 MB. */
  passportsMax: 10_000,
  policiesMax: 200,
} as const;

mustHold(
  backtestsLimits.progressMs * 10 < backtestsLimits.workerMs,
  'one that goes on says so well before it is taken for gone',
);
