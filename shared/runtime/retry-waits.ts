import type { MonotonicMillis } from '../model/time.ts';
import type { Clock } from './clock.ts';
import type { Random } from './random.ts';

export interface RetryBounds {
  /** Who waits at once: of all owners, and of one. */
  readonly waitingMax: number;
  readonly waitingPerOwnerMax: number;
  /** All who wait together ask no more often than this. */
  readonly retriesPerSecondMax: number;
  /** The pauses of one request double from the first to the last. */
  readonly pauseFirstMs: number;
  readonly pauseLastMs: number;
}

/**
 * Requests that wait for what others have begun, each for a moment until it asks again (`wait` of
 * shared/decision/run.ts). Pauses grow from one wait of a request to the next, and with the number of those
 * who wait.
 */
export class RetryWaits {
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #random: Random;
  readonly #bounds: RetryBounds;
  readonly #timers = new Set<NodeJS.Timeout>();
  readonly #owners = new Map<string, number>();
  /** Those of `#timers` that were not turned away. */
  #waiting = 0;
  #isStopped = false;

  constructor(
    { clock, random }: { readonly clock: Pick<Clock, 'monotonic'>; readonly random: Random },
    bounds: RetryBounds,
  ) {
    this.#clock = clock;
    this.#random = random;
    this.#bounds = bounds;
  }

  /**
   * `waits`: how often the request has waited before. Calls `onWaited` once, at `untilMs` at the latest, and
   * never before this returns: `late` where the time is over, or where too many wait already. Not at all
   * after `stop`.
   */
  wait(
    request: { readonly owner: string; readonly waits: number; readonly untilMs: MonotonicMillis },
    onWaited: (outcome: 'waited' | 'late') => void,
  ): void {
    if (this.#isStopped) return;
    const { owner, waits, untilMs } = request;
    const ofOwner = this.#owners.get(owner) ?? 0;
    const { waitingMax, waitingPerOwnerMax } = this.#bounds;
    const isTooMany = this.#waiting >= waitingMax || ofOwner >= waitingPerOwnerMax;
    const leftMs = isTooMany ? 0 : Math.max(0, untilMs - this.#clock.monotonic());
    const pauseMs = this.#pauseMs(waits);
    if (!isTooMany) this.#enter(owner, ofOwner);
    const timer = setTimeout(
      () => {
        this.#timers.delete(timer);
        if (!isTooMany) this.#leave(owner);
        onWaited(pauseMs < leftMs ? 'waited' : 'late');
      },
      Math.min(pauseMs, leftMs),
    );
    this.#timers.add(timer);
  }

  stop(): void {
    this.#isStopped = true;
    for (const timer of this.#timers) clearTimeout(timer);
    this.#timers.clear();
    this.#owners.clear();
  }

  #enter(owner: string, others: number): void {
    this.#waiting++;
    this.#owners.set(owner, others + 1);
  }

  #leave(owner: string): void {
    this.#waiting--;
    const others = (this.#owners.get(owner) ?? 1) - 1;
    if (others > 0) this.#owners.set(owner, others);
    else this.#owners.delete(owner);
  }

  /** Chance keeps copies apart that would take from each other what each of them needs. */
  #pauseMs(waits: number): number {
    const { pauseFirstMs, pauseLastMs, retriesPerSecondMax } = this.#bounds;
    const wholeMs = Math.min(pauseFirstMs * 2 ** waits, pauseLastMs);
    const fairMs = (1_000 * this.#waiting) / retriesPerSecondMax;
    return Math.max(wholeMs, fairMs) * (0.5 + (this.#random.bytes(1)[0] ?? 0) / 512);
  }
}
