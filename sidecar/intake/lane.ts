import type { Moment } from '../../shared/runtime/clock.ts';
import { isReady, type ReceivedCheck } from '../decide/check.ts';
import type { Intake } from './intake.ts';
import type { TurnBudget, Turns, Worker } from './turns.ts';

/** The checks of one sender, unread, in the order in which they came. */
export interface LaneSource {
  /** Nothing is read or decided now. Looked at once a step. */
  readonly isHeld: boolean;
  readonly hasNext: boolean;
  /**
   * Reads the next check and prepares it; `whenReady`: for `Intake.prepare`. Null: it was answered. Takes
   * the bytes that were read off the budget. Must not throw.
   */
  next(moment: Moment, budget: TurnBudget, whenReady: () => void): ReceivedCheck | null;
}

/**
 * The checks of one sender on their way: read and decided in order, when their turn has come (turns.ts).
 * Unknown passports are verified together, while the checks before them are decided.
 */
export class Lane implements Worker {
  isQueued = false;
  readonly #intake: Pick<Intake, 'decide' | 'moment'>;
  readonly #turns: Turns;
  readonly #source: LaneSource;
  readonly #checksPerStep: number;
  /** Read, and not decided yet: the passport of the first one is being verified. */
  readonly #read: ReceivedCheck[] = [];
  readonly #wake = (): void => this.#turns.wants(this);

  /** `checksPerStep`: taken before other lanes have their step. */
  constructor(
    { intake, turns }: { readonly intake: Pick<Intake, 'decide' | 'moment'>; readonly turns: Turns },
    source: LaneSource,
    checksPerStep: number = Number.POSITIVE_INFINITY,
  ) {
    this.#intake = intake;
    this.#turns = turns;
    this.#source = source;
    this.#checksPerStep = checksPerStep;
  }

  /** There is something to read, or to decide. */
  wake(): void {
    this.#wake();
  }

  /** One of its checks was answered: the first one that waits may be it. */
  noteAnswer(): void {
    if (this.#read.length > 0) this.#wake();
  }

  clear(): void {
    this.#read.length = 0;
  }

  step(budget: TurnBudget): boolean {
    if (this.#source.isHeld) return false;
    const checksLeftMin = Math.max(0, budget.checks - this.#checksPerStep);
    while (budget.checks > checksLeftMin && budget.bytes > 0) if (!this.#next(budget)) return false;
    return true;
  }

  /** False: there is nothing to read or decide now. */
  #next(budget: TurnBudget): boolean {
    const [first] = this.#read;
    if (first !== undefined && (isReady(first) || !first.isOpen)) {
      this.#read.shift();
      budget.checks -= 1;
      if (isReady(first)) this.#intake.decide(first, this.#intake.moment());
      return true;
    }
    if (!this.#source.hasNext) return false;
    budget.checks -= 1;
    const moment = this.#intake.moment();
    const check = this.#source.next(moment, budget, this.#wake);
    if (check === null) return true;
    if (isReady(check) && this.#read.length === 0) this.#intake.decide(check, moment);
    else this.#read.push(check);
    return true;
  }
}
