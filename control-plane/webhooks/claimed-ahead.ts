import type { WebhookId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { LockedDelivery } from './delivery-queue.ts';
import { webhooksLimits } from './limits.ts';

/**
 * Deliveries that this replica has claimed beyond the attempts under way. An endpoint that answers fast has
 * some, so that its attempts follow each other without a journey to the database between them.
 */
export class ClaimedAhead {
  readonly #queues = new Map<WebhookId, LockedDelivery[]>();
  /** Time of the last answer of endpoints that succeeded last; the longest silent first. */
  readonly #latencies = new Map<WebhookId, number>();
  #count = 0;

  add(delivery: LockedDelivery): void {
    const queue = this.#queues.get(delivery.webhookId);
    if (queue === undefined) this.#queues.set(delivery.webhookId, [delivery]);
    else queue.push(delivery);
    this.#count += 1;
  }

  /** The longest due of this endpoint; null where there is none, or it was claimed too long ago. */
  next(webhookId: WebhookId, nowMs: UnixMillis): LockedDelivery | null {
    const queue = this.#queues.get(webhookId);
    const [first] = queue ?? [];
    if (queue === undefined || first === undefined || isOld(first, nowMs)) return null;
    this.#keep(webhookId, queue, 1);
    return first;
  }

  /** An attempt has succeeded in this time; null: it failed, and the endpoint gets nothing ahead. */
  noteAnswer(webhookId: WebhookId, latencyMs: number | null): void {
    this.#latencies.delete(webhookId);
    if (latencyMs === null) return;
    this.#latencies.set(webhookId, latencyMs);
    const [longestSilent] = this.#latencies.keys();
    if (this.#latencies.size > webhooksLimits.webhookLoadsMax && longestSilent !== undefined) {
      this.#latencies.delete(longestSilent);
    }
  }

  /**
   * How many more to claim, where `room` is left for all: none until half is used up, so that a journey is
   * worth it.
   */
  wants(webhookId: WebhookId, room: number): number {
    const most = Math.min(
      aim(this.#latencies.get(webhookId)),
      Math.floor(room / webhooksLimits.webhookRoomShares),
    );
    const there = this.#queues.get(webhookId)?.length ?? 0;
    return there * 2 <= most ? most - there : 0;
  }

  /** How many there may be besides, of all endpoints. */
  room(): number {
    return webhooksLimits.webhookAheadAtOnceMax - this.#count;
  }

  /** The endpoints for which something is there. */
  endpoints(): readonly WebhookId[] {
    return [...this.#queues.keys()];
  }

  /** Takes out what is not to begin here: that of endpoints for which `isLeft` is true, and what is old. */
  remove(isLeft: (webhookId: WebhookId) => boolean, nowMs: UnixMillis): readonly LockedDelivery[] {
    const removed: LockedDelivery[] = [];
    for (const [webhookId, queue] of [...this.#queues]) {
      const fresh = isLeft(webhookId) ? -1 : queue.findIndex((delivery) => !isOld(delivery, nowMs));
      const from = fresh === -1 ? queue.length : fresh;
      removed.push(...queue.slice(0, from));
      // What is left so long shows that the endpoint is fast no more.
      if (from > 0) this.#latencies.delete(webhookId);
      this.#keep(webhookId, queue, from);
    }
    return removed;
  }

  #keep(webhookId: WebhookId, queue: LockedDelivery[], from: number): void {
    this.#count -= from;
    if (from === queue.length) this.#queues.delete(webhookId);
    else this.#queues.set(webhookId, queue.slice(from));
  }
}

/** How many an endpoint takes in `webhookAheadMsAimed`, by the time of its last answer. */
function aim(latencyMs: number | undefined): number {
  if (latencyMs === undefined) return 0;
  const rounds = Math.floor(webhooksLimits.webhookAheadMsAimed / Math.max(1, latencyMs));
  return Math.min(webhooksLimits.webhookAheadMax, rounds * webhooksLimits.webhookConcurrencyMax);
}

const isOld = ({ lockEndsAtMs }: LockedDelivery, nowMs: UnixMillis): boolean =>
  lockEndsAtMs - nowMs < webhooksLimits.webhookLockMs - webhooksLimits.webhookAheadMsMax;
