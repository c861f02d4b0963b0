import { LRUCache } from 'lru-cache';
import { ApiError } from '../../shared/errors/api-error.ts';
import type { Clock } from '../../shared/runtime/clock.ts';

interface LeastServedBounds {
  readonly atOnceMax: number;
  readonly atOncePerOwnerMax: number;
  readonly waitingMax: number;
  readonly waitingPerOwnerMax: number;
  /** Owners with a remembered count of runs. A forgotten one counts as new. */
  readonly ownersMax: number;
  /** Maximum count of runs, so that a shared network is not shut out. */
  readonly runsCountedMax: number;
  /** An owner is forgotten this long after its last run. */
  readonly rememberedMs: number;
}

interface Waiter {
  readonly owner: string;
  begin(): void;
  giveWay(): void;
}

/**
 * Turns at work that strangers may ask for. The next turn is that of the owner who had the fewest of late, so
 * a flood from many networks waits for itself, and whoever comes for the first time goes before it. Where the
 * room to wait is full, the one who had most gives way to one who had less.
 */
export class LeastServed {
  readonly #bounds: LeastServedBounds;
  readonly #served: LRUCache<string, number>;
  /** At most `atOnceMax` owners. */
  readonly #running = new Map<string, number>();
  readonly #waiting: Waiter[] = [];
  #runningInAll = 0;

  constructor(clock: Pick<Clock, 'monotonic'>, bounds: LeastServedBounds) {
    this.#bounds = bounds;
    this.#served = new LRUCache({
      max: bounds.ownersMax,
      ttl: bounds.rememberedMs,
      ttlResolution: 0,
      perf: { now: () => clock.monotonic() },
    });
  }

  /** Throws `overloaded` where the work did not begin. */
  async run<T>(owner: string, work: () => Promise<T>): Promise<T> {
    // An owner that waits although there is room waits for its own runs, so nothing is overtaken here.
    if (this.#isFree(owner)) this.#admit(owner);
    else if (!this.#makeRoom(owner)) throw new ApiError('overloaded');
    else {
      await new Promise<void>((begin, reject) => {
        this.#waiting.push({ owner, begin, giveWay: () => reject(new ApiError('overloaded')) });
      });
    }
    try {
      return await work();
    } finally {
      this.#end(owner);
    }
  }

  /** The last turn of this owner does not count: it was no try of a stranger. */
  forgive(owner: string): void {
    const runs = this.#runsOf(owner);
    if (runs > 1) this.#served.set(owner, runs - 1);
    else this.#served.delete(owner);
  }

  #runsOf(owner: string): number {
    return this.#served.get(owner) ?? 0;
  }

  #isFree(owner: string): boolean {
    const { atOnceMax, atOncePerOwnerMax } = this.#bounds;
    return this.#runningInAll < atOnceMax && (this.#running.get(owner) ?? 0) < atOncePerOwnerMax;
  }

  /** In the same turn of the event loop as the look at what is free. */
  #admit(owner: string): void {
    this.#runningInAll += 1;
    this.#running.set(owner, (this.#running.get(owner) ?? 0) + 1);
    this.#served.set(owner, Math.min(this.#runsOf(owner) + 1, this.#bounds.runsCountedMax));
  }

  #end(owner: string): void {
    this.#runningInAll -= 1;
    const left = (this.#running.get(owner) ?? 0) - 1;
    if (left === 0) this.#running.delete(owner);
    else this.#running.set(owner, left);
    this.#admitWaiting();
  }

  #admitWaiting(): void {
    for (;;) {
      const order = this.#ranks();
      const free = this.#waiting.flatMap(({ owner }, place) => (this.#isFree(owner) ? [place] : []));
      const [first] = free.toSorted((one, other) => (order[one] ?? 0) - (order[other] ?? 0) || one - other);
      const [next] = first === undefined ? [] : this.#waiting.splice(first, 1);
      if (next === undefined) return;
      this.#admit(next.owner);
      next.begin();
    }
  }

  /** Of each waiter how many runs its owner will have had before it. */
  #ranks(): readonly number[] {
    const next = new Map<string, number>();
    return this.#waiting.map(({ owner }) => {
      const rank = next.get(owner) ?? this.#runsOf(owner);
      next.set(owner, rank + 1);
      return rank;
    });
  }

  /** Room for one more of this owner. False: it has no claim to it. */
  #makeRoom(owner: string): boolean {
    const { waitingMax, waitingPerOwnerMax } = this.#bounds;
    const own = this.#waiting.filter((each) => each.owner === owner).length;
    if (own >= waitingPerOwnerMax) return false;
    if (this.#waiting.length < waitingMax) return true;
    const order = this.#ranks();
    const most = Math.max(...order);
    if (most <= this.#runsOf(owner) + own) return false;
    this.#waiting.splice(order.lastIndexOf(most), 1)[0]?.giveWay();
    return true;
  }
}
