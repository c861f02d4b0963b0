import { mustHold } from '../../shared/model/limits.ts';
import { dayMs, minuteMs, secondMs } from '../../shared/model/time.ts';
import { quotaLimits } from '../book/limits.ts';

/** Bounds of this room alone, each with its reason. */
export const approvalsLimits = {
  /**
   * Pending approvals of one passport at one gate: more than a person reviews. A runaway agent neither fills
   * the list nor blocks other gates.
   */
  approvalsPendingMax: 100,
  /**
   * An expired approval is written as expired, and its money freed, within this time; within twice that with
   * a busy database.
   */
  approvalSweepIntervalMs: secondMs,
  /**
   * Calls that wait for the end of an approval, of all accounts and of one. Each costs a look-up a second.
   */
  waitersMax: 500,
  waitersPerAccountMax: 100,
  waitLookMs: secondMs,
  /** A display is kept with its approval until so long after `expires_at` (contract §8). */
  displayKeptMs: 90 * dayMs,
  /**
   * An approval is listed with its outcome until so long after its end: a year and its comparison. Who
   * approved what stays on record, in the chain of the passport and in the audit.
   */
  endedKeptMs: 400 * dayMs,
  /** How often displays and old approvals are removed, and how many at a time: a short statement. */
  trimIntervalMs: minuteMs,
  rowsPerTrimMax: 1_000,
  /**
   * Standing approvals in force at one gate, which every change of the gate carries to its sidecars: 25 KB.
   * Of an account and mode: more than people keep in mind.
   */
  standingApprovalsPerGateMax: 64,
  standingApprovalsPerAccountMax: 1_000,
  /** What an expired one used is final so long after its time: by then the records of sidecars have come. */
  standingApprovalCountedAfterMs: 30 * minuteMs,
  standingApprovalsPerSweepMax: 100,
  /** Pause before a failed expiry is retried, and reported again. */
  approvalPutOffMs: minuteMs,
} as const;

mustHold(
  approvalsLimits.standingApprovalCountedAfterMs + 2 * approvalsLimits.trimIntervalMs <
    quotaLimits.quotaWindowKeptMs,
  'what a standing approval used is counted before the ledger forgets it',
);
