import { ApiError } from '../../shared/errors/api-error.ts';
import type { AccountId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import type { MonotonicMillis } from '../../shared/model/time.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
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
 * Accounts do not share batches, so none waits for another's locks; `turns` shares out the connections.
 */
export class CheckQueue<Call, Answer> {
  readonly #turns: FairShare<AccountId>;
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #lines = new Map<AccountId, Line<Call, Answer>>();
  #waiting = 0;

  constructor({
    turns,
    clock,
  }: { readonly turns: FairShare<AccountId>; readonly clock: Pick<Clock, 'monotonic'> }) {
    this.#turns = turns;
    this.#clock = clock;
  }

  /** Throws `overloaded` if too many calls wait already, or if no batch takes this one in time. */
  async join(accountId: AccountId, call: Call, decide: Decide<Call, Answer>): Promise<Answer> {
    const line = this.#lines.get(accountId) ?? { waiting: [], isPlanned: false, batches: 0, brisk: 0 };
    const { waitingMax, waitingPerAccountMax } = decisionsLimits.checks;
    if (this.#waiting >= waitingMax || line.waiting.length >= waitingPerAccountMax)
      throw new ApiError('overloaded');
    this.#lines.set(accountId, line);
    return new Promise<Answer>((resolve, reject) => {
      this.#add(line, [{ call, isAlone: false, sinceMs: this.#clock.monotonic(), resolve, reject }]);
      this.#plan(accountId, line, decide);
    });
  }

  #add(line: Line<Call, Answer>, queued: readonly Queued<Call, Answer>[]): void {
    line.waiting.push(...queued);
    this.#waiting += queued.length;
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
    this.#turns(accountId, decideNext).catch((error: unknown) => {
      // No slot became free in time.
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
    const timer = setTimeout(() => {
      noLongerBrisk();
      this.#plan(accountId, line, decide);
    }, decisionsLimits.checks.hangsAfterMs);
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
      noLongerBrisk();
      line.batches -= 1;
      this.#plan(accountId, line, decide);
      if (line.batches === 0 && line.waiting.length === 0) this.#lines.delete(accountId);
    }
  }

  /** The client has given up, or will before the call could be answered. */
  #isLate({ sinceMs, reject }: Queued<Call, Answer>): boolean {
    const isLate = this.#clock.monotonic() - sinceMs >= limits.decisionDeadlineMs;
    if (isLate) reject(new ApiError('overloaded'));
    return isLate;
  }

  /** The next batch: a single call marked `isAlone`, or all that may share one. */
  #takeBatch(line: Line<Call, Answer>): readonly Queued<Call, Answer>[] {
    const end = line.waiting.findIndex(({ isAlone }) => isAlone);
    const together = Math.min(end < 0 ? line.waiting.length : end, decisionsLimits.checks.batchMax);
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
