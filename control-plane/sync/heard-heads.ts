import type { MonotonicMillis } from '../../shared/model/time.ts';
import type { FeedId, FeedPosition } from '../../shared/wire/sync/sync.ts';
import type { Database } from '../base/database.ts';

/**
 * The heads of the feeds that connected sidecars follow, as the last pulse has read them: a pull that is at
 * them needs no look of its own. What is not certain is not here, and the pull asks the database.
 */
class HeardHeads {
  readonly #heads = new Map<FeedId, FeedPosition>();
  #readAtMs = 0 as MonotonicMillis;
  /** Those that this replica has changed since the last pulse. */
  readonly #changedAtMs = new Map<FeedId, MonotonicMillis>();
  /** Called after each pulse. */
  readonly listeners = new Set<() => void>();

  hear(heads: readonly (readonly [FeedId, number, string])[], readAtMs: MonotonicMillis): void {
    this.#readAtMs = readAtMs;
    this.#heads.clear();
    for (const [feedId, atMs] of this.#changedAtMs) if (atMs < readAtMs) this.#changedAtMs.delete(feedId);
    for (const [feedId, revision, mark] of heads)
      if (!this.#changedAtMs.has(feedId)) this.#heads.set(feedId, { revision, mark });
    for (const listener of this.listeners) listener();
  }

  noteChange(feedId: FeedId, nowMs: MonotonicMillis): void {
    this.#heads.delete(feedId);
    this.#changedAtMs.set(feedId, nowMs);
  }

  /** When all of these were read, if they were the heads then; else null. */
  readAtMs(places: readonly (readonly [FeedId, FeedPosition])[]): MonotonicMillis | null {
    const areHeads = places.every(([feedId, { revision, mark }]) => {
      const head = this.#heads.get(feedId);
      return head?.revision === revision && head.mark === mark;
    });
    return areHeads ? this.#readAtMs : null;
  }
}

const heardHeads = new WeakMap<Database, HeardHeads>();

/** Those of this pool. */
export function heardHeadsOf(sql: Database): HeardHeads {
  const known = heardHeads.get(sql) ?? new HeardHeads();
  heardHeads.set(sql, known);
  return known;
}
