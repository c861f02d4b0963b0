import { LRUCache } from 'lru-cache';
import { ApiError } from '../../shared/errors/api-error.ts';
import type { Clock } from '../../shared/runtime/clock.ts';

/**
 * Turns at work that strangers may ask for. The next turn is that of the owner who had the fewest of late, so
 * a flood from many networks waits for itself, and whoever comes for the first time goes before it. Where the
 * room to wait is full, the one who had most gives way to one who had less.
 */
export interface LeastServed {
  /** Throws `overloaded` where the work did not begin. */
  run<T>(owner: string, work: () => Promise<T>): Promise<T>;
  /** The last turn of this owner does not count: it was no try of a stranger. */
  forgive(owner: string): void;
}

interface LeastServedBounds {
  readonly atOnceMax: number;
  readonly atOncePerOwnerMax: number;
  readonly waitingMax: number;
  readonly waitingPerOwnerMax: number;
  /** Owners of whom is known how many turns they had. A forgotten one counts as new. */
  readonly ownersMax: number;
  /** Whoever had more turns waits no longer than whoever had so many: a shared network is not shut out. */
  readonly turnsCountedMax: number;
  /** So long after its last turn an owner is forgotten. */
  readonly rememberedMs: number;
}

interface Waiter {
  readonly owner: string;
  begin(): void;
  giveWay(): void;
}

export function leastServedFirst(clock: Pick<Clock, 'monotonic'>, bounds: LeastServedBounds): LeastServed {
  const served = new LRUCache<string, number>({
    max: bounds.ownersMax,
    ttl: bounds.rememberedMs,
    ttlResolution: 0,
    perf: { now: () => clock.monotonic() },
  });
  /** At most `atOnceMax` owners. */
  const running = new Map<string, number>();
  const waiting: Waiter[] = [];
  let runningInAll = 0;

  const isFree = (owner: string): boolean =>
    runningInAll < bounds.atOnceMax && (running.get(owner) ?? 0) < bounds.atOncePerOwnerMax;
  const waitingOf = (owner: string): number => waiting.filter((each) => each.owner === owner).length;

  /** Of each waiter how many turns its owner will have had before it. */
  const ranks = (): readonly number[] => {
    const next = new Map<string, number>();
    return waiting.map(({ owner }) => {
      const rank = next.get(owner) ?? served.get(owner) ?? 0;
      next.set(owner, rank + 1);
      return rank;
    });
  };

  /** In the same turn of the event loop as the look at what is free. */
  const admit = (owner: string): void => {
    runningInAll += 1;
    running.set(owner, (running.get(owner) ?? 0) + 1);
    served.set(owner, Math.min((served.get(owner) ?? 0) + 1, bounds.turnsCountedMax));
  };

  const admitWaiting = (): void => {
    for (;;) {
      const order = ranks();
      const free = waiting.flatMap(({ owner }, place) => (isFree(owner) ? [place] : []));
      const [first] = free.toSorted((one, other) => (order[one] ?? 0) - (order[other] ?? 0) || one - other);
      const [next] = first === undefined ? [] : waiting.splice(first, 1);
      if (next === undefined) return;
      admit(next.owner);
      next.begin();
    }
  };

  const end = (owner: string): void => {
    runningInAll -= 1;
    const left = (running.get(owner) ?? 0) - 1;
    if (left === 0) running.delete(owner);
    else running.set(owner, left);
    admitWaiting();
  };

  /** Room for one more of this owner. False: it is not for them. */
  const makeRoom = (owner: string): boolean => {
    if (waitingOf(owner) >= bounds.waitingPerOwnerMax) return false;
    if (waiting.length < bounds.waitingMax) return true;
    const order = ranks();
    const most = Math.max(...order);
    if (most <= (served.get(owner) ?? 0) + waitingOf(owner)) return false;
    waiting.splice(order.lastIndexOf(most), 1)[0]?.giveWay();
    return true;
  };

  return {
    run: async (owner, work) => {
      // Whoever waits although there is room waits for their own: nobody is overtaken here.
      if (isFree(owner)) admit(owner);
      else if (!makeRoom(owner)) throw new ApiError('overloaded');
      else {
        await new Promise<void>((begin, reject) => {
          waiting.push({ owner, begin, giveWay: () => reject(new ApiError('overloaded')) });
        });
      }
      try {
        return await work();
      } finally {
        end(owner);
      }
    },
    forgive: (owner) => {
      const turns = served.get(owner) ?? 0;
      if (turns > 1) served.set(owner, turns - 1);
      else served.delete(owner);
    },
  };
}
