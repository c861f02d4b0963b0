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
   * A decision of the control plane that others were quicker than is made anew, with what they have left.
   * After so many tries it ends its transaction and waits, as for everything that others have begun. Two are
   * the rule, because who lost once knows what is left.
   */
  enforcementTriesMax: 5,
} as const;

mustHold(
  decisionsLimits.settlementAgeMsMax > 10 * limits.decisionDeadlineMs &&
    decisionsLimits.settlementAgeMsMax < decisionsLimits.permitKeyKeptMs,
  'a settlement that is refused for its age was abandoned long ago, and its void is kept for longer',
);
