import type { WebhookId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { LockedDelivery } from './delivery-queue.ts';
import { webhooksLimits } from './limits.ts';

/**
 * Deliveries that this replica has claimed beyond the attempts under way. An endpoint that answers fast has
 * some, so that its attempts follow each other without a journey to the database between them.
 */
export interface ClaimedAhead {
  add(delivery: LockedDelivery): void;
  /** The longest due of this endpoint; null where there is none, or it was claimed too long ago. */
  next(webhookId: WebhookId, nowMs: UnixMillis): LockedDelivery | null;
  /** An attempt has succeeded in this time; null: it failed, and the endpoint gets nothing ahead. */
  noteAnswer(webhookId: WebhookId, latencyMs: number | null): void;
  /**
   * How many more to claim, where `room` is left for all: none until half is used up, so that a journey is
   * worth it.
   */
  wants(webhookId: WebhookId, room: number): number;
  /** How many there may be besides, of all endpoints. */
  room(): number;
  /** The endpoints for which something is there. */
  endpoints(): readonly WebhookId[];
  /** Takes out what is not to begin here: that of endpoints for which `isLeft` is true, and what is old. */
  remove(isLeft: (webhookId: WebhookId) => boolean, nowMs: UnixMillis): readonly LockedDelivery[];
}

export function makeClaimedAhead(): ClaimedAhead {
  const queues = new Map<WebhookId, LockedDelivery[]>();
  /** Time of the last answer of endpoints that succeeded last; the longest silent first. */
  const latencies = new Map<WebhookId, number>();
  let count = 0;

  const keep = (webhookId: WebhookId, queue: LockedDelivery[], from: number): void => {
    count -= from;
    if (from === queue.length) queues.delete(webhookId);
    else queues.set(webhookId, queue.slice(from));
  };

  return {
    add: (delivery) => {
      const queue = queues.get(delivery.webhookId);
      if (queue === undefined) queues.set(delivery.webhookId, [delivery]);
      else queue.push(delivery);
      count += 1;
    },
    next: (webhookId, nowMs) => {
      const queue = queues.get(webhookId);
      const [first] = queue ?? [];
      if (queue === undefined || first === undefined || isOld(first, nowMs)) return null;
      keep(webhookId, queue, 1);
      return first;
    },
    noteAnswer: (webhookId, latencyMs) => {
      latencies.delete(webhookId);
      if (latencyMs === null) return;
      latencies.set(webhookId, latencyMs);
      const [longestSilent] = latencies.keys();
      if (latencies.size > webhooksLimits.webhookLoadsMax && longestSilent !== undefined) {
        latencies.delete(longestSilent);
      }
    },
    wants: (webhookId, room) => {
      const most = Math.min(
        aim(latencies.get(webhookId)),
        Math.floor(room / webhooksLimits.webhookRoomShares),
      );
      const there = queues.get(webhookId)?.length ?? 0;
      return there * 2 <= most ? most - there : 0;
    },
    room: () => webhooksLimits.webhookAheadAtOnceMax - count,
    endpoints: () => [...queues.keys()],
    remove: (isLeft, nowMs) => {
      const removed: LockedDelivery[] = [];
      for (const [webhookId, queue] of [...queues]) {
        const fresh = isLeft(webhookId) ? -1 : queue.findIndex((delivery) => !isOld(delivery, nowMs));
        const from = fresh === -1 ? queue.length : fresh;
        removed.push(...queue.slice(0, from));
        // What is left so long shows that the endpoint is fast no more.
        if (from > 0) latencies.delete(webhookId);
        keep(webhookId, queue, from);
      }
      return removed;
    },
  };
}

/** How many an endpoint takes in `webhookAheadMsAimed`, by the time of its last answer. */
function aim(latencyMs: number | undefined): number {
  if (latencyMs === undefined) return 0;
  const rounds = Math.floor(webhooksLimits.webhookAheadMsAimed / Math.max(1, latencyMs));
  return Math.min(webhooksLimits.webhookAheadMax, rounds * webhooksLimits.webhookConcurrencyMax);
}

const isOld = ({ lockEndsAtMs }: LockedDelivery, nowMs: UnixMillis): boolean =>
  lockEndsAtMs - nowMs < webhooksLimits.webhookLockMs - webhooksLimits.webhookAheadMsMax;
