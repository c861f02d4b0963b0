import type { WebhookId } from '../../shared/model/ids.ts';
import { type Attempt, attemptDelivery } from './attempt-delivery.ts';
import { ClaimedAhead } from './claimed-ahead.ts';
import type { LockedDelivery } from './delivery-queue.ts';
import type { WebhookDeps } from './deps.ts';
import { webhooksLimits } from './limits.ts';

export interface Room {
  readonly attempts: number;
  readonly ahead: number;
}

/** State of an endpoint with attempts in flight, or failing. */
interface Load {
  inFlight: number;
  /** Attempts in a row that failed. */
  failures: number;
}

type AttemptDeps = Pick<WebhookDeps, 'clock' | 'random' | 'sealer' | 'outbound' | 'logger'>;

/**
 * The attempts of this replica: in flight, ended and not yet recorded, and deliveries claimed ahead.
 *
 *     claimed ──> ahead ──its turn──> running ──answered──> back ──> written down
 *         └───────────────────────────┘
 */
export class AttemptsInFlight {
  readonly #deps: AttemptDeps;
  readonly #onBack: () => void;
  readonly #loads = new Map<WebhookId, Load>();
  readonly #running = new Map<LockedDelivery, AbortController>();
  readonly #ahead = new ClaimedAhead();
  #back: Attempt[] = [];
  #isEnding = false;

  /** `onBack` is called when there is something to write down or to claim. */
  constructor(deps: AttemptDeps, onBack: () => void) {
    this.#deps = deps;
    this.#onBack = onBack;
  }

  /** Begins an attempt, or has it wait for one of its endpoint to end. */
  start(delivery: LockedDelivery): void {
    if (this.#attemptsFree(delivery.webhookId) > 0) this.#begin(delivery);
    else this.#ahead.add(delivery);
  }

  /** How many more may begin and how many more may wait, at all endpoints together. */
  room(): Room {
    return {
      attempts: webhooksLimits.webhookAttemptsAtOnceMax - this.#running.size - this.#back.length,
      ahead: this.#ahead.room(),
    };
  }

  /** How many more of this one may begin or wait, where that is the room of all; never below zero. */
  freeSlots(webhookId: WebhookId, room: Room): Room {
    return {
      attempts: freeAttempts(this.#loads.get(webhookId), room.attempts),
      ahead: this.#ahead.wants(webhookId, room.ahead),
    };
  }

  /** How many have not come back. */
  count(): number {
    return this.#running.size;
  }

  /** Takes the ended attempts. */
  takeBack(): readonly Attempt[] {
    const taken = this.#back;
    this.#back = [];
    return taken;
  }

  /** Takes waiting deliveries that should not begin here. */
  takeIdle(): readonly LockedDelivery[] {
    for (const webhookId of this.#ahead.endpoints()) while (this.#beginNext(webhookId));
    return this.#ahead.remove((webhookId) => this.#isIdle(webhookId), this.#deps.clock.now());
  }

  /** No waiting delivery begins from now on. */
  beginNoMore(): void {
    this.#isEnding = true;
  }

  /** Returns attempts that could not be recorded. */
  putBack(attempts: readonly Attempt[]): void {
    this.#back = [...attempts, ...this.#back];
  }

  /** Aborts attempts in flight and drops waiting deliveries. */
  abandon(): readonly LockedDelivery[] {
    for (const controller of this.#running.values()) controller.abort();
    return [...this.#running.keys(), ...this.#ahead.remove(() => true, this.#deps.clock.now())];
  }

  #attemptsFree(webhookId: WebhookId): number {
    return freeAttempts(this.#loads.get(webhookId), this.room().attempts);
  }

  #begin(delivery: LockedDelivery): void {
    const { webhookId } = delivery;
    const controller = new AbortController();
    this.#running.set(delivery, controller);
    const load = this.#loads.get(webhookId) ?? { inFlight: 0, failures: 0 };
    load.inFlight += 1;
    this.#loads.set(webhookId, load);
    attemptDelivery(this.#deps, delivery, controller.signal).then(
      (attempt) => {
        // The outcome of an abandoned attempt says nothing about the endpoint.
        if (controller.signal.aborted) return;
        this.#back.push(attempt);
        this.#ahead.noteAnswer(webhookId, attempt.hasSucceeded ? attempt.result.latencyMs : null);
        this.#end(delivery, load, attempt.hasSucceeded);
      },
      (error: unknown) => {
        // A secret that cannot be unsealed: an internal error. It is retried when the lock expires, and until
        // then it keeps its slot.
        this.#deps.logger.error({ err: error, webhook_id: webhookId }, 'a webhook could not be signed');
        this.#ahead.noteAnswer(webhookId, null);
        setTimeout(() => this.#end(delivery, load, false), webhooksLimits.webhookLockMs).unref();
      },
    );
  }

  #end(delivery: LockedDelivery, load: Load, hasSucceeded: boolean): void {
    const { webhookId } = delivery;
    this.#running.delete(delivery);
    load.inFlight -= 1;
    load.failures = hasSucceeded ? 0 : load.failures + 1;
    const isForgotten = load.failures === 0 || this.#loads.size > webhooksLimits.webhookLoadsMax;
    if (load.inFlight === 0 && isForgotten) this.#loads.delete(webhookId);
    const hasBegun = this.#beginNext(webhookId);
    // While enough waits, what has come back is written down together.
    if (!hasBegun || this.#ahead.wants(webhookId, this.#ahead.room()) > 0) this.#onBack();
  }

  /**
   * Begins what waits for this endpoint, unless it failed last. Where little room is left it does not: others
   * wait for that in the queue.
   */
  #beginNext(webhookId: WebhookId): boolean {
    if (this.#isEnding || (this.#loads.get(webhookId)?.failures ?? 0) > 0) return false;
    if (this.room().attempts < webhooksLimits.webhookRoomShares) return false;
    if (this.#attemptsFree(webhookId) === 0) return false;
    const next = this.#ahead.next(webhookId, this.#deps.clock.now());
    if (next !== null) this.#begin(next);
    return next !== null;
  }

  #isIdle(webhookId: WebhookId): boolean {
    const load = this.#loads.get(webhookId);
    return this.#isEnding || load === undefined || load.inFlight === 0 || load.failures > 0;
  }
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
