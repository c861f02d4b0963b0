import type { UnixMillis } from '../../shared/model/time.ts';
import { outboxLimits } from './limits.ts';
import type { Claimed, OutboxBounds } from './outbox.ts';

/**
 * Deliveries that this replica has claimed beyond the attempts under way. An endpoint that answers fast has
 * some, so that its attempts follow each other without a journey to the database between them.
 */
export class ClaimedAhead<D extends Claimed> {
  readonly #bounds: OutboxBounds;
  readonly #queues = new Map<string, D[]>();
  /** Time of the last answer of endpoints that succeeded last; the longest silent first. */
  readonly #latencies = new Map<string, number>();
  #count = 0;

  constructor(bounds: OutboxBounds) {
    this.#bounds = bounds;
  }

  add(delivery: D): void {
    const { endpointId } = delivery;
    const queue = this.#queues.get(endpointId);
    if (queue === undefined) this.#queues.set(endpointId, [delivery]);
    else queue.push(delivery);
    this.#count += 1;
  }

  /** The longest due of this endpoint; null where there is none, or it was claimed too long ago. */
  next(endpointId: string, nowMs: UnixMillis): D | null {
    const queue = this.#queues.get(endpointId);
    const [first] = queue ?? [];
    if (queue === undefined || first === undefined || this.#isOld(first, nowMs)) return null;
    this.#keep(endpointId, queue, 1);
    return first;
  }

  /** An attempt has succeeded in this time; null: it failed, and the endpoint gets nothing ahead. */
  noteAnswer(endpointId: string, latencyMs: number | null): void {
    this.#latencies.delete(endpointId);
    if (latencyMs === null) return;
    this.#latencies.set(endpointId, latencyMs);
    const [longestSilent] = this.#latencies.keys();
    if (this.#latencies.size > outboxLimits.loadsMax && longestSilent !== undefined) {
      this.#latencies.delete(longestSilent);
    }
  }

  /**
   * How many more to claim, where `room` is left for all: none until half is used up, so that a journey is
   * worth it.
   */
  wants(endpointId: string, room: number): number {
    const most = Math.min(
      aim(this.#latencies.get(endpointId), this.#bounds),
      Math.floor(room / outboxLimits.roomShares),
    );
    const there = this.#queues.get(endpointId)?.length ?? 0;
    return there * 2 <= most ? most - there : 0;
  }

  /** How many there may be besides, of all endpoints. */
  room(): number {
    return outboxLimits.aheadAtOnceMax - this.#count;
  }

  /** The endpoints for which something is there. */
  endpoints(): readonly string[] {
    return [...this.#queues.keys()];
  }

  /** Takes out what is not to begin here: that of endpoints for which `isLeft` is true, and what is old. */
  remove(isLeft: (endpointId: string) => boolean, nowMs: UnixMillis): readonly D[] {
    const removed: D[] = [];
    for (const [endpointId, queue] of [...this.#queues]) {
      const fresh = isLeft(endpointId) ? -1 : queue.findIndex((delivery) => !this.#isOld(delivery, nowMs));
      const from = fresh === -1 ? queue.length : fresh;
      removed.push(...queue.slice(0, from));
      // What is left so long shows that the endpoint is fast no more.
      if (from > 0) this.#latencies.delete(endpointId);
      this.#keep(endpointId, queue, from);
    }
    return removed;
  }

  #isOld({ lockEndsAtMs }: D, nowMs: UnixMillis): boolean {
    return lockEndsAtMs - nowMs < this.#bounds.lockMs - outboxLimits.aheadMsMax;
  }

  #keep(endpointId: string, queue: D[], from: number): void {
    this.#count -= from;
    if (from === queue.length) this.#queues.delete(endpointId);
    else this.#queues.set(endpointId, queue.slice(from));
  }
}

/** How many an endpoint takes in `aheadMsAimed`, by the time of its last answer. */
function aim(latencyMs: number | undefined, { aheadMax, concurrencyMax }: OutboxBounds): number {
  if (latencyMs === undefined) return 0;
  const rounds = Math.floor(outboxLimits.aheadMsAimed / Math.max(1, latencyMs));
  return Math.min(aheadMax, rounds * concurrencyMax);
}
