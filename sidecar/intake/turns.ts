import { limits } from '../../shared/model/limits.ts';
import { intakeLimits } from './limits.ts';

/** What a turn of the event loop may still do; a step takes off what it costs. */
export interface TurnBudget {
  checks: number;
  bytes: number;
}

/** Something with work in steps. */
export interface Worker {
  /** False at first; written by `Turns` alone. */
  isQueued: boolean;
  /** Does a step; false: there is nothing that it can do now. Decides no more than `budget.checks`. */
  step(budget: TurnBudget): boolean;
}

/**
 * Shares the event loop among senders of many checks: streams, batches, evaluations. A turn decides a bounded
 * number of checks, or reads as many bytes as one body may have, one step per sender, round robin. So no
 * sender starves another, nor single requests, which are read between two turns.
 *
 * A check stays the bytes it came in until its turn. Parsed on arrival, the checks of many senders would
 * survive collection after collection.
 */
export class Turns {
  /**
   * In the order of their next step. No Set: it replaces its table again and again, and each old table keeps
   * the next one alive in the old generation.
   */
  readonly #ready: Worker[] = [];
  readonly #checksPerTurn: number;
  #budget: TurnBudget;
  #isScheduled = false;
  readonly #run = (): void => this.#turn();

  constructor(checksPerTurn: number = intakeLimits.checksPerTurnMax) {
    this.#checksPerTurn = checksPerTurn;
    this.#budget = this.#newBudget();
  }

  /** The worker has something to do. */
  wants(worker: Worker): void {
    this.#queue(worker);
    this.#schedule();
  }

  /** Its first step at once, if no worker waits and this turn has budget left; false: neither. */
  tryNow(worker: Worker): boolean {
    if (this.#ready.length > 0 || isSpent(this.#budget)) return false;
    if (worker.step(this.#budget)) this.#queue(worker);
    this.#schedule();
    return true;
  }

  /** One check off this turn, for a sender without a step; false: others wait, or the turn is used up. */
  tryTake(): boolean {
    if (this.#ready.length > 0 || isSpent(this.#budget)) return false;
    this.#budget.checks -= 1;
    this.#schedule();
    return true;
  }

  #newBudget(): TurnBudget {
    return { checks: this.#checksPerTurn, bytes: limits.bodyBytesMax };
  }

  #turn(): void {
    this.#isScheduled = false;
    this.#budget = this.#newBudget();
    let steps = 0;
    for (const worker of this.#ready) {
      if (isSpent(this.#budget)) break;
      steps += 1;
      worker.isQueued = false;
      // The loop comes to it again, after all others.
      if (worker.step(this.#budget)) this.#queue(worker);
    }
    this.#ready.splice(0, steps);
    // Also if no worker waits but the budget is spent: the next turn renews it.
    if (this.#ready.length > 0 || isSpent(this.#budget)) this.#schedule();
  }

  #queue(worker: Worker): void {
    if (worker.isQueued) return;
    worker.isQueued = true;
    this.#ready.push(worker);
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(this.#run);
  }
}

const isSpent = ({ checks, bytes }: TurnBudget): boolean => checks <= 0 || bytes <= 0;
