import type { WebhookId } from '../../shared/model/ids.ts';
import { type Attempt, attemptDelivery } from './attempt-delivery.ts';
import type { LockedDelivery } from './delivery-queue.ts';
import type { WebhookDeps } from './deps.ts';
import { webhooksLimits } from './limits.ts';

/**
 * The attempts of this replica: those that have not come back, and those that have and are not yet written
 * down.
 */
export interface AttemptsInFlight {
  /** Begins an attempt; it counts from this moment on. */
  start(delivery: LockedDelivery): void;
  /** How many more may begin, at all endpoints together. */
  room(): number;
  /** How many more may begin at this one, where `room` may at all together; never below zero. */
  freeSlots(webhookId: WebhookId, room: number): number;
  /** How many have not come back. */
  count(): number;
  /** What has come back since; it is the caller's from here on. */
  takeBack(): readonly Attempt[];
  /** What could not be written down. */
  putBack(attempts: readonly Attempt[]): void;
  /** Ends what has not come back; none of it ever does. */
  abandon(): readonly LockedDelivery[];
}

/** What is known of an endpoint with attempts under way, or failing. */
interface Load {
  inFlight: number;
  /** Attempts in a row that failed. */
  failures: number;
}

/** `onBack` is called whenever something has come back or a slot is free again. */
export function makeAttemptsInFlight(
  deps: Pick<WebhookDeps, 'clock' | 'random' | 'sealer' | 'outbound' | 'logger'>,
  onBack: () => void,
): AttemptsInFlight {
  const loads = new Map<WebhookId, Load>();
  const running = new Map<LockedDelivery, AbortController>();
  let back: Attempt[] = [];

  const end = (delivery: LockedDelivery, load: Load, hasSucceeded: boolean): void => {
    running.delete(delivery);
    load.inFlight -= 1;
    load.failures = hasSucceeded ? 0 : load.failures + 1;
    const isForgotten = load.failures === 0 || loads.size > webhooksLimits.webhookLoadsMax;
    if (load.inFlight === 0 && isForgotten) loads.delete(delivery.webhookId);
    onBack();
  };

  const start = (delivery: LockedDelivery): void => {
    const { webhookId } = delivery;
    const controller = new AbortController();
    running.set(delivery, controller);
    const load = loads.get(webhookId) ?? { inFlight: 0, failures: 0 };
    load.inFlight += 1;
    loads.set(webhookId, load);
    attemptDelivery(deps, delivery, controller.signal).then(
      (attempt) => {
        // The outcome of an abandoned attempt says nothing about the endpoint.
        if (controller.signal.aborted) return;
        back.push(attempt);
        end(delivery, load, attempt.hasSucceeded);
      },
      (error: unknown) => {
        // A secret that cannot be unsealed: an internal error. It is retried when the lock expires, and until
        // then it keeps its slot.
        deps.logger.error({ err: error, webhook_id: webhookId }, 'a webhook could not be signed');
        setTimeout(() => end(delivery, load, false), webhooksLimits.webhookLockMs).unref();
      },
    );
  };

  return {
    start,
    room: () => webhooksLimits.webhookAttemptsAtOnceMax - running.size - back.length,
    freeSlots: (webhookId, room) => freeSlots(loads.get(webhookId), room),
    count: () => running.size,
    takeBack: () => {
      const taken = back;
      back = [];
      return taken;
    },
    putBack: (attempts) => {
      back = [...attempts, ...back];
    },
    abandon: () => {
      for (const controller of running.values()) controller.abort();
      return [...running.keys()];
    },
  };
}

/**
 * Halved with every failure in a row: an endpoint that hangs holds one attempt, and still shows when it is
 * back. And the fewer are left for all, the fewer for each: otherwise as many endpoints as there are in one
 * account, when they hang together, would hold all of them.
 */
function freeSlots(load: Load | undefined, room: number): number {
  const { inFlight: underWay, failures } = load ?? { inFlight: 0, failures: 0 };
  const most = webhooksLimits.webhookConcurrencyMax >> Math.min(failures, 16);
  const slots = Math.max(1, Math.min(most, Math.floor(room / webhooksLimits.webhookRoomShares)));
  return Math.max(0, slots - underWay);
}
