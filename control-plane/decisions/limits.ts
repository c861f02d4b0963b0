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
   * A PERMIT that is settled was decided this recently: one that was on its way for longer may have been
   * voided and forgotten.
   */
  settlementAgeMsMax: minuteMs,
  /**
   * A decision of the control plane that others were quicker than is made anew, with what they have left; the
   * last time it asks nobody and answers `quota_unavailable` instead. Two are the rule, because who lost once
   * knows what is left.
   */
  enforcementTriesMax: 5,
} as const;

mustHold(
  decisionsLimits.settlementAgeMsMax > 10 * limits.decisionDeadlineMs &&
    decisionsLimits.settlementAgeMsMax < decisionsLimits.permitKeyKeptMs,
  'a settlement that is refused for its age was abandoned long ago, and its void is kept for longer',
);
