import type { MonotonicMillis } from '../model/time.ts';
import type { Clock } from './clock.ts';
import type { Random } from './random.ts';

export interface RetryBounds {
  /** Waiting requests, of all owners and of one. */
  readonly waitingMax: number;
  readonly waitingPerOwnerMax: number;
  /** Retries of all waiters together. */
  readonly retriesPerSecondMax: number;
  /** The pauses of one request double from the first to the last. */
  readonly pauseFirstMs: number;
  readonly pauseLastMs: number;
}

/**
 * Requests that wait for requests in flight, each for a pause until it is decided again (`wait` of
 * shared/decision/run.ts). Pauses grow with each wait of a request, and with the number of waiters.
 */
export class RetryWaits {
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #random: Random;
  readonly #bounds: RetryBounds;
  readonly #timers = new Set<NodeJS.Timeout>();
  readonly #owners = new Map<string, number>();
  /** Timers of accepted waiters. */
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
   * never before this returns: `late` after the deadline, or if too many wait. Never after `stop`.
   */
  wait(
    request: { readonly owner: string; readonly waits: number; readonly untilMs: MonotonicMillis },
    onWaited: (outcome: 'waited' | 'late') => void,
  ): void {
    if (this.#isStopped) return;
    const { owner, waits, untilMs } = request;
    const ofOwner = this.#owners.get(owner) ?? 0;
    const { waitingMax, waitingPerOwnerMax } = this.#bounds;
    // No owner has more places than are left, so a few that ask for all of them leave some to the others.
    const isTooMany = ofOwner >= Math.min(waitingPerOwnerMax, waitingMax - this.#waiting);
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

  /** Jitter separates copies of a request that would take each other's units. */
  #pauseMs(waits: number): number {
    const { pauseFirstMs, pauseLastMs, retriesPerSecondMax } = this.#bounds;
    const wholeMs = Math.min(pauseFirstMs * 2 ** waits, pauseLastMs);
    const fairMs = (1_000 * this.#waiting) / retriesPerSecondMax;
    return Math.max(wholeMs, fairMs) * (0.5 + (this.#random.bytes(1)[0] ?? 0) / 512);
  }
}
