import { ApiError } from '../../shared/errors/api-error.ts';
import type { AccountId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import type { MonotonicMillis } from '../../shared/model/time.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import { runOutsideTraces } from '../../shared/runtime/current-trace.ts';
import type { FairShare } from '../storage/fair-share.ts';
import { decisionsLimits } from './limits.ts';

/** A call waiting for the next batch of its account. */
export interface Queued<Call, Answer> {
  readonly call: Call;
  /** Runs in its own batch, because an earlier batch with it waited too long for a lock. */
  readonly isAlone: boolean;
  readonly sinceMs: MonotonicMillis;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Answers every call of a batch, except the ones it returns: each of them queues again for its own batch.
 */
export type Decide<Call, Answer> = (
  batch: readonly Queued<Call, Answer>[],
) => Promise<readonly Queued<Call, Answer>[]>;

interface Line<Call, Answer> {
  waiting: Queued<Call, Answer>[];
  /** A slot has been requested. Calls that arrive before it is granted join that batch. */
  isPlanned: boolean;
  /** Batches in flight. */
  batches: number;
  /** Batches in flight that do not count as stuck. */
  brisk: number;
}

/**
 * Group commit: calls that arrive while a batch of their account is in flight form the next batch. One batch
 * is in flight at a time: a second would wait for the rows of the first, because decisions of an account
 * share gates and passports. If a batch hangs on a lock that another program holds, others start beside it,
 * as far as the account has slots.
 *
 * Accounts do not share batches, so none waits for another's locks; `slots` shares out the connections. They
 * share the places to wait: when all are taken, the account with the most calls gives up its newest for an
 * account with fewer.
 */
export class CheckQueue<Call, Answer> {
  readonly #slots: FairShare<AccountId>;
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #lines = new Map<AccountId, Line<Call, Answer>>();
  #waiting = 0;
  /** How long batches took of late. */
  #usualMs = 0;
  /** Refuses late calls. One for all of them, set while any waits. */
  #timer: NodeJS.Timeout | null = null;

  constructor({
    slots,
    clock,
  }: { readonly slots: FairShare<AccountId>; readonly clock: Pick<Clock, 'monotonic'> }) {
    this.#slots = slots;
    this.#clock = clock;
  }

  /** Throws `overloaded` where there is no place to wait for one more. */
  refuseFull(accountId: AccountId): void {
    const own = this.#lines.get(accountId)?.waiting.length ?? 0;
    const hasPlace = this.#waiting < decisionsLimits.checks.waitingMax || this.#longest().length > own + 1;
    if (own >= decisionsLimits.checks.waitingPerAccountMax || !hasPlace) throw new ApiError('overloaded');
  }

  /**
   * Throws `overloaded` if there is no place to wait, or if no batch takes the call in time. That counts from
   * `sinceMs`.
   */
  async join(
    accountId: AccountId,
    call: Call,
    decide: Decide<Call, Answer>,
    sinceMs: MonotonicMillis = this.#clock.monotonic(),
  ): Promise<Answer> {
    const line = this.#lines.get(accountId) ?? { waiting: [], isPlanned: false, batches: 0, brisk: 0 };
    this.refuseFull(accountId);
    if (this.#waiting >= decisionsLimits.checks.waitingMax) this.#displace();
    return new Promise<Answer>((resolve, reject) => {
      const queued = { call, isAlone: false, sinceMs, resolve, reject };
      if (this.#isLate(queued)) return;
      this.#lines.set(accountId, line);
      this.#add(line, [queued]);
      this.#plan(accountId, line, decide);
    });
  }

  #longest(): Queued<Call, Answer>[] {
    let longest: Queued<Call, Answer>[] = [];
    for (const { waiting } of this.#lines.values()) if (waiting.length > longest.length) longest = waiting;
    return longest;
  }

  /** The account with the most calls gives up its newest. */
  #displace(): void {
    this.#longest().pop()?.reject(new ApiError('overloaded'));
    this.#waiting -= 1;
  }

  #add(line: Line<Call, Answer>, queued: readonly Queued<Call, Answer>[]): void {
    line.waiting.push(...queued);
    this.#waiting += queued.length;
    if (queued.length > 0) this.#timer ??= this.#refuseLateIn(decisionsLimits.checks.waitMsMax);
  }

  #refuseLateIn(ms: number): NodeJS.Timeout {
    return setTimeout(() => this.#refuseLate(), ms).unref();
  }

  #refuseLate(): void {
    const { waitMsMax, lateMsMax } = decisionsLimits.checks;
    let oldestMs = Number.POSITIVE_INFINITY;
    for (const line of this.#lines.values()) {
      const before = line.waiting.length;
      line.waiting = line.waiting.filter((each) => !this.#isLate(each));
      this.#waiting -= before - line.waiting.length;
      for (const { sinceMs } of line.waiting) oldestMs = Math.min(oldestMs, sinceMs);
    }
    const nextInMs = oldestMs + waitMsMax - this.#clock.monotonic();
    this.#timer = this.#waiting === 0 ? null : this.#refuseLateIn(Math.max(lateMsMax, nextInMs));
  }

  #plan(accountId: AccountId, line: Line<Call, Answer>, decide: Decide<Call, Answer>): void {
    const [head] = line.waiting;
    if (head === undefined || line.isPlanned || (line.brisk > 0 && !head.isAlone)) return;
    line.isPlanned = true;
    const decideNext = async (): Promise<void> => {
      // Calls of one turn of the event loop share a batch.
      await new Promise((resolve) => setImmediate(resolve));
      line.isPlanned = false;
      await this.#decideBatch(accountId, line, decide);
    };
    // A batch is of many requests, so of none of their traces. It is of those that wait by then, each of
    // which has a time of its own: so it does not lose its place in the line with the first of them.
    runOutsideTraces(() => this.#slots(accountId, decideNext, null)).catch((error: unknown) => {
      // Too much of the account waits for a slot.
      line.isPlanned = false;
      for (const { reject } of this.#takeAll(line)) reject(error);
    });
  }

  async #decideBatch(
    accountId: AccountId,
    line: Line<Call, Answer>,
    decide: Decide<Call, Answer>,
  ): Promise<void> {
    const batch = this.#takeBatch(line).filter((each) => !this.#isLate(each));
    let isBrisk = true;
    const noLongerBrisk = (): void => {
      if (isBrisk) line.brisk -= 1;
      isBrisk = false;
    };
    line.batches += 1;
    line.brisk += 1;
    const hangsAfterMs = this.#hangsAfterMs();
    const beganAtMs = this.#clock.monotonic();
    const timer = setTimeout(() => {
      noLongerBrisk();
      this.#plan(accountId, line, decide);
    }, hangsAfterMs);
    this.#plan(accountId, line, decide);
    try {
      const left = await decide(batch);
      this.#add(
        line,
        left.map((each) => ({ ...each, isAlone: true })),
      );
    } catch (error) {
      for (const { reject } of batch) reject(error);
    } finally {
      clearTimeout(timer);
      // One that hung counts only as far as it was waited for.
      const tookMs = Math.min(this.#clock.monotonic() - beganAtMs, hangsAfterMs);
      this.#usualMs += (tookMs - this.#usualMs) / decisionsLimits.checks.usualOfBatches;
      noLongerBrisk();
      line.batches -= 1;
      this.#plan(accountId, line, decide);
      if (line.batches === 0 && line.waiting.length === 0) this.#lines.delete(accountId);
    }
  }

  /**
   * A batch that takes several times as long as usual waits for a lock. All are slow if the database is far
   * away or the machine is busy, and to start others beside them would slow them down further.
   */
  #hangsAfterMs(): number {
    const { hangsAfterMsMin, hangsAfterUsual } = decisionsLimits.checks;
    return Math.min(Math.max(hangsAfterMsMin, hangsAfterUsual * this.#usualMs), limits.quotaWaitMsMax);
  }

  /** The call could no longer be answered within its deadline. */
  #isLate({ sinceMs, reject }: Queued<Call, Answer>): boolean {
    const isLate = this.#clock.monotonic() - sinceMs >= decisionsLimits.checks.waitMsMax;
    if (isLate) reject(new ApiError('overloaded'));
    return isLate;
  }

  /** The next batch: a single call marked `isAlone`, or all that may share one. */
  #takeBatch(line: Line<Call, Answer>): readonly Queued<Call, Answer>[] {
    const { batchMax, batchBesideOthersMax } = decisionsLimits.checks;
    const end = line.waiting.findIndex(({ isAlone }) => isAlone);
    const together = Math.min(
      end < 0 ? line.waiting.length : end,
      this.#lines.size > 1 ? batchBesideOthersMax : batchMax,
    );
    const batch = line.waiting.splice(0, Math.max(1, together));
    this.#waiting -= batch.length;
    return batch;
  }

  #takeAll(line: Line<Call, Answer>): readonly Queued<Call, Answer>[] {
    const all = line.waiting.splice(0);
    this.#waiting -= all.length;
    return all;
  }
}
