import { limits, mustHold } from '../../shared/model/limits.ts';
import { proofLifetimeMsMax } from '../../shared/model/proof.ts';
import { hourMs, minuteMs } from '../../shared/model/time.ts';

/** Bounds used only in this room, each with its reason. */
export const decisionsLimits = {
  /** How long the first PERMIT under a `request.idempotency_key` is answered again (contract §5). */
  permitKeyKeptMs: 24 * hourMs,
  /**
   * Expired rows are kept this long, so that a replica with a fast clock does not remove rows that a slower
   * one still needs.
   */
  permitClaimTrimAfterMs: hourMs,
  /**
   * Requests that wait for others in flight. Each retry is a transaction of about 3 ms, so they use a tenth
   * of a replica. Requests beyond this get 503 at once.
   */
  retries: {
    waitingMax: 256,
    waitingPerOwnerMax: 64,
    retriesPerSecondMax: 400,
    pauseFirstMs: 30,
    pauseLastMs: 120,
  },
  /**
   * How long closing a refused settlement waits for another delivery of its call. Short, because the sidecar
   * waits for the answer.
   */
  closeWaitMsMax: 50,
  /**
   * Maximum age of a PERMIT when it is settled. The void of an older one may have been forgotten already.
   */
  settlementAgeMsMax: minuteMs,
  /**
   * Transactions that try a check, after lost races or behind the request it depends on. After the last one
   * the check waits like any request behind others in flight, and at its deadline gets 503 `overloaded`. Two
   * usually suffice: the second sees what is left.
   */
  enforcementTriesMax: 5,
  /**
   * The control plane's own voids in one transaction: the ledger takes their units back in one statement.
   */
  voidsAtOnceMax: 12,
  /**
   * How long one transaction of a single check waits for each lock. Then it is done again, until it has
   * waited for `limits.quotaWaitMsMax`: so its answer rests on nothing that was read longer ago.
   */
  lockWaitAloneMsMax: 250,
  checks: {
    /** Equal to the largest call of a sidecar. */
    batchMax: limits.settlementsPerCallMax,
    /**
     * While other accounts have checks: a check of theirs shares the processor with this batch. With a
     * quarter of `batchMax` they waited half as long, but all together got a third less.
     */
    batchBesideOthersMax: limits.settlementsPerCallMax / 2,
    /** Per control plane and per account: about half a second of its decisions. */
    waitingMax: 4_096,
    waitingPerAccountMax: 1_024,
    /** Leaves the transaction of the check the time for which it may wait for locks. */
    waitMsMax: limits.decisionDeadlineMs - limits.quotaWaitMsMax,
    /** Late checks are refused together, up to this much after their time. */
    lateMsMax: 25,
    /**
     * A batch takes about 20 ms. After this long, and so many times as long as usual, it must be waiting for
     * a lock, and the next one starts beside it.
     */
    hangsAfterMsMin: 100,
    hangsAfterUsual: 3,
    /** Usual is the mean of about so many batches. */
    usualOfBatches: 8,
    /**
     * Of one batch for personal data, in one turn of the event loop: a scan takes up to some 30 ms, and
     * everything else waits for all of them. The rest is scanned one by one.
     */
    scanMsMax: 20,
  },
  /** Proofs of possession that were used (contract §5). */
  proofs: {
    /** As long as a proof may be accepted, and as long again for a clock that is set back. */
    keptMs: 2 * proofLifetimeMsMax,
    trimIntervalMs: minuteMs,
    rowsPerTrimMax: 10_000,
  },
} as const;

mustHold(
  decisionsLimits.settlementAgeMsMax > 10 * limits.decisionDeadlineMs &&
    decisionsLimits.settlementAgeMsMax < decisionsLimits.permitKeyKeptMs,
  'a settlement that is refused for its age was abandoned long ago, and its void is kept for longer',
);
mustHold(
  2 * limits.quotaWaitMsMax + 4 * decisionsLimits.lockWaitAloneMsMax <= limits.decisionDeadlineMs,
  'a check that waits for locks in a batch, and then alone, is answered in time',
);
mustHold(
  decisionsLimits.voidsAtOnceMax * limits.settlementHeldMax <= limits.quotaWindowsPerCallMax,
  'the units of voids go back in one statement',
);
mustHold(
  limits.settlementHeldMax <= limits.quotaWindowsPerCallMax,
  'the first check of a batch always finds room for its windows',
);
