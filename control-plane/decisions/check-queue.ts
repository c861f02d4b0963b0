import { ApiError } from '../../shared/errors/api-error.ts';
import type { AccountId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import type { MonotonicMillis } from '../../shared/model/time.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import type { FairShare } from '../storage/fair-share.ts';
import { decisionsLimits } from './limits.ts';

/** What waits for the next batch of its account. */
export interface Queued<Call, Answer> {
  readonly call: Call;
  /** In a batch of its own: a batch that it was in waited too long for a lock. */
  readonly isAlone: boolean;
  readonly sinceMs: MonotonicMillis;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: unknown) => void;
}

/** Answers each of a batch. Those that it returns queue again, each for a batch of its own. */
export type Decide<Call, Answer> = (
  batch: readonly Queued<Call, Answer>[],
) => Promise<readonly Queued<Call, Answer>[]>;

interface Line<Call, Answer> {
  waiting: Queued<Call, Answer>[];
  /** A turn is asked for. What arrives before it comes joins that batch. */
  isPlanned: boolean;
  /** In flight. */
  batches: number;
  /** Of these, those that are not taken for stuck. */
  brisk: number;
}

/**
 * Group commit: what arrives while a batch of its account is in flight is the next batch. One at a time is
 * in flight: a second one would wait for the rows of the first, because decisions of an account share gates
 * and passports. Only where a batch hangs, on a lock that another program holds for long, do others begin
 * beside it, as far as the account has turns.
 *
 * Accounts do not share batches: none waits for the locks of another, and `turns` shares the connections out.
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

  /** Throws `overloaded` where too many wait already, and where no batch takes it in time. */
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
      // All that comes in this turn of the event loop goes together.
      await new Promise((resolve) => setImmediate(resolve));
      line.isPlanned = false;
      await this.#decideBatch(accountId, line, decide);
    };
    this.#turns(accountId, decideNext).catch((error: unknown) => {
      // No turn was to be had.
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

  /** Its client has given up, or does so before it could be answered. */
  #isLate({ sinceMs, reject }: Queued<Call, Answer>): boolean {
    const isLate = this.#clock.monotonic() - sinceMs >= limits.decisionDeadlineMs;
    if (isLate) reject(new ApiError('overloaded'));
    return isLate;
  }

  /** The next in line: one that goes alone, or those that go together. */
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
