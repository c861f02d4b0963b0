import { limits, mustHold } from '../../shared/model/limits.ts';
import { hourMs, minuteMs } from '../../shared/model/time.ts';

/** Bounds of this room alone, each with its reason. */
export const decisionsLimits = {
  /** How long the first PERMIT under a `request.idempotency_key` is answered again (contract §5). */
  permitKeyKeptMs: 24 * hourMs,
  /**
   * Removed so long after their end: a replica whose clock is ahead takes nothing from one whose clock is
   * behind.
   */
  permitClaimTrimAfterMs: hourMs,
  /**
   * Requests that wait for what others have begun. Each try is a transaction of some 3 ms: a tenth of what a
   * replica does. More are answered 503 at once.
   */
  retries: {
    waitingMax: 256,
    waitingPerOwnerMax: 64,
    retriesPerSecondMax: 400,
    pauseFirstMs: 30,
    pauseLastMs: 120,
  },
  /**
   * How long the close of a refused settlement waits for another delivery of its call: its sidecar waits for
   * the answer.
   */
  closeWaitMsMax: 50,
  /**
   * A PERMIT that is settled was decided this recently: one that was on its way for longer may have been
   * voided and forgotten.
   */
  settlementAgeMsMax: minuteMs,
  /**
   * Transactions that try a check, after a lost race or behind what it depends on. After the last one it
   * waits as for everything that others have begun, and at its deadline gets 503 `overloaded`. Two are the
   * rule: the second knows what is left.
   */
  enforcementTriesMax: 5,
  /** Voids of this program in one transaction: the ledger takes back what they held in one statement. */
  ownVoidsAtOnceMax: 50,
  checks: {
    /** As in the largest call of a sidecar. */
    batchMax: limits.settlementsPerCallMax,
    /** Of one control plane, and of one account: half a second of what it decides. */
    waitingMax: 4_096,
    waitingPerAccountMax: 1_024,
    /** A batch takes some 20 ms. One that takes so long waits for a lock, and the next begins beside it. */
    hangsAfterMs: 100,
  },
} as const;

mustHold(
  decisionsLimits.settlementAgeMsMax > 10 * limits.decisionDeadlineMs &&
    decisionsLimits.settlementAgeMsMax < decisionsLimits.permitKeyKeptMs,
  'a settlement that is refused for its age was abandoned long ago, and its void is kept for longer',
);
mustHold(
  decisionsLimits.ownVoidsAtOnceMax * limits.settlementHeldMax <= limits.quotaWindowsPerCallMax,
  'the units of voids go back in one statement',
);
mustHold(
  limits.settlementHeldMax <= limits.quotaWindowsPerCallMax,
  'the first check of a batch always finds room for its windows',
);
