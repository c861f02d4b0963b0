import { limits } from '../../shared/model/limits.ts';

/** Something with work in steps. */
export interface Worker {
  /** Does a step, and returns how many bytes it took; null: there is nothing that it can do now. */
  step(): number | null;
}

/**
 * Shares the event loop among streams: in each turn as much as a batch may decide, or as many bytes as one
 * body may have, by a step of each stream in turn. So a stream that is full neither starves another nor the
 * callers of single requests, which are read between two turns.
 */
export class Turns {
  /** In the order of their next step: a worker that has done one goes to the end. */
  readonly #ready = new Set<Worker>();
  #isScheduled = false;
  readonly #run = (): void => this.#turn();

  /** The worker has something to do. */
  wants(worker: Worker): void {
    this.#ready.add(worker);
    this.#schedule();
  }

  #turn(): void {
    this.#isScheduled = false;
    let steps: number = limits.batchChecksPerTurn;
    let bytes: number = limits.bodyBytesMax;
    for (const worker of this.#ready) {
      if (steps === 0 || bytes <= 0) break;
      this.#ready.delete(worker);
      const taken = worker.step();
      if (taken === null) continue;
      steps -= 1;
      bytes -= taken;
      // The loop comes to it again, behind all others.
      this.#ready.add(worker);
    }
    if (this.#ready.size > 0) this.#schedule();
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(this.#run);
  }
}
