import type { WebhookId } from '../../shared/model/ids.ts';
import { type Attempt, attemptDelivery } from './attempt-delivery.ts';
import { makeClaimedAhead } from './claimed-ahead.ts';
import type { LockedDelivery } from './delivery-queue.ts';
import type { WebhookDeps } from './deps.ts';
import { webhooksLimits } from './limits.ts';

/**
 * The attempts of this replica: those that have not come back, those that have and are not yet written down,
 * and what is claimed ahead of them.
 */
export interface AttemptsInFlight {
  /** Begins an attempt, or has it wait for one of its endpoint to end. */
  start(delivery: LockedDelivery): void;
  /** How many more may begin and how many more may wait, at all endpoints together. */
  room(): Room;
  /** How many more of this one may begin or wait, where that is the room of all; never below zero. */
  freeSlots(webhookId: WebhookId, room: Room): Room;
  /** How many have not come back. */
  count(): number;
  /** What has come back since; it is the caller's from here on. */
  takeBack(): readonly Attempt[];
  /** What waits and is not to begin here; it is the caller's from here on. */
  takeIdle(): readonly LockedDelivery[];
  /** From now on nothing that waits begins. */
  beginNoMore(): void;
  /** What could not be written down. */
  putBack(attempts: readonly Attempt[]): void;
  /** Ends what has not come back, and what waits; none of it ever does. */
  abandon(): readonly LockedDelivery[];
}

export interface Room {
  readonly attempts: number;
  readonly ahead: number;
}

/** What is known of an endpoint with attempts under way, or failing. */
interface Load {
  inFlight: number;
  /** Attempts in a row that failed. */
  failures: number;
}

/** `onBack` is called when there is something to write down or to claim. */
export function makeAttemptsInFlight(
  deps: Pick<WebhookDeps, 'clock' | 'random' | 'sealer' | 'outbound' | 'logger'>,
  onBack: () => void,
): AttemptsInFlight {
  const loads = new Map<WebhookId, Load>();
  const running = new Map<LockedDelivery, AbortController>();
  const ahead = makeClaimedAhead();
  let back: Attempt[] = [];
  let isEnding = false;

  const room = (): Room => ({
    attempts: webhooksLimits.webhookAttemptsAtOnceMax - running.size - back.length,
    ahead: ahead.room(),
  });
  const attemptsFree = (webhookId: WebhookId): number => freeAttempts(loads.get(webhookId), room().attempts);

  const end = (delivery: LockedDelivery, load: Load, hasSucceeded: boolean): void => {
    const { webhookId } = delivery;
    running.delete(delivery);
    load.inFlight -= 1;
    load.failures = hasSucceeded ? 0 : load.failures + 1;
    const isForgotten = load.failures === 0 || loads.size > webhooksLimits.webhookLoadsMax;
    if (load.inFlight === 0 && isForgotten) loads.delete(webhookId);
    const hasBegun = beginNext(webhookId);
    // While enough waits, what has come back is written down together.
    if (!hasBegun || ahead.wants(webhookId, ahead.room()) > 0) onBack();
  };

  const begin = (delivery: LockedDelivery): void => {
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
        ahead.noteAnswer(webhookId, attempt.hasSucceeded ? attempt.result.latencyMs : null);
        end(delivery, load, attempt.hasSucceeded);
      },
      (error: unknown) => {
        // A secret that cannot be unsealed: an internal error. It is retried when the lock expires, and until
        // then it keeps its slot.
        deps.logger.error({ err: error, webhook_id: webhookId }, 'a webhook could not be signed');
        ahead.noteAnswer(webhookId, null);
        setTimeout(() => end(delivery, load, false), webhooksLimits.webhookLockMs).unref();
      },
    );
  };

  /**
   * Begins what waits for this endpoint, unless it failed last. Where little room is left it does not: others
   * wait for that in the queue.
   */
  const beginNext = (webhookId: WebhookId): boolean => {
    if (isEnding || (loads.get(webhookId)?.failures ?? 0) > 0) return false;
    if (room().attempts < webhooksLimits.webhookRoomShares || attemptsFree(webhookId) === 0) return false;
    const next = ahead.next(webhookId, deps.clock.now());
    if (next !== null) begin(next);
    return next !== null;
  };

  const isIdle = (webhookId: WebhookId): boolean => {
    const load = loads.get(webhookId);
    return isEnding || load === undefined || load.inFlight === 0 || load.failures > 0;
  };

  return {
    start: (delivery) => {
      if (attemptsFree(delivery.webhookId) > 0) begin(delivery);
      else ahead.add(delivery);
    },
    room,
    freeSlots: (webhookId, left) => ({
      attempts: freeAttempts(loads.get(webhookId), left.attempts),
      ahead: ahead.wants(webhookId, left.ahead),
    }),
    count: () => running.size,
    takeBack: () => {
      const taken = back;
      back = [];
      return taken;
    },
    takeIdle: () => {
      for (const webhookId of ahead.endpoints()) while (beginNext(webhookId));
      return ahead.remove(isIdle, deps.clock.now());
    },
    beginNoMore: () => {
      isEnding = true;
    },
    putBack: (attempts) => {
      back = [...attempts, ...back];
    },
    abandon: () => {
      for (const controller of running.values()) controller.abort();
      return [...running.keys(), ...ahead.remove(() => true, deps.clock.now())];
    },
  };
}

/**
 * Halved with every failure in a row: an endpoint that hangs holds one attempt, and still shows when it is
 * back. And the fewer are left for all, the fewer for each: otherwise as many endpoints as there are in one
 * account, when they hang together, would hold all of them.
 */
function freeAttempts(load: Load | undefined, room: number): number {
  const { inFlight: underWay, failures } = load ?? { inFlight: 0, failures: 0 };
  const most = webhooksLimits.webhookConcurrencyMax >> Math.min(failures, 16);
  const slots = Math.max(1, Math.min(most, Math.floor(room / webhooksLimits.webhookRoomShares)));
  return Math.max(0, slots - underWay);
}
