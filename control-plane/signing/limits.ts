import { secondMs } from '../../shared/model/time.ts';

/** Bounds of this room alone, each with its reason. */
export const signingLimits = {
  /**
   * Fewer signatures are made at once by the event loop: handing a task to a thread and back takes as long as
   * two to four of them.
   */
  signTaskMessagesMin: 16,
  /**
   * Signatures of a whole batch take 20 ms of one core, and 0.4 s where ten programs want it. A thread that
   * needs longer than this is stuck; the transaction that waits is still below its own bounds.
   */
  signTaskMsMax: 4 * secondMs,
  /** Threads that had nothing to sign for so long end. */
  signIdleMs: 30 * secondMs,
  /** One thread signs 50,000 records a second; more only takes the core that PostgreSQL needs. */
  signThreadsMax: 2,
} as const;
