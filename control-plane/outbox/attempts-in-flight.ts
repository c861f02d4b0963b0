import type { BaseDeps } from '../base/deps.ts';
import { attemptOnce } from './attempt.ts';
import { ClaimedAhead } from './claimed-ahead.ts';
import { outboxLimits } from './limits.ts';
import type { Answer, Attempt, Claimed, Outbox } from './outbox.ts';

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

type AttemptDeps = Pick<BaseDeps, 'clock' | 'random' | 'logger'>;

/**
 * The attempts of this replica: in flight, ended and not yet recorded, and deliveries claimed ahead.
 *
 *     claimed ──> ahead ──its turn──> running ──answered──> back ──> written down
 *         └───────────────────────────┘
 */
export class AttemptsInFlight<D extends Claimed, A extends Answer> {
  readonly #deps: AttemptDeps;
  readonly #outbox: Outbox<D, A>;
  readonly #onBack: () => void;
  readonly #loads = new Map<string, Load>();
  readonly #running = new Map<D, AbortController>();
  readonly #ahead: ClaimedAhead<D>;
  #back: Attempt<D, A>[] = [];
  #isEnding = false;

  /** `onBack` is called when there is something to write down or to claim. */
  constructor(deps: AttemptDeps, outbox: Outbox<D, A>, onBack: () => void) {
    this.#deps = deps;
    this.#outbox = outbox;
    this.#ahead = new ClaimedAhead(outbox.bounds);
    this.#onBack = onBack;
  }

  /** Begins an attempt, or has it wait for one of its endpoint to end. */
  start(delivery: D): void {
    if (this.#attemptsFree(delivery.endpointId) > 0) this.#begin(delivery);
    else this.#ahead.add(delivery);
  }

  /** How many more may begin and how many more may wait, at all endpoints together. */
  room(): Room {
    return {
      attempts: outboxLimits.attemptsAtOnceMax - this.#running.size - this.#back.length,
      ahead: this.#ahead.room(),
    };
  }

  /** How many more of this one may begin or wait, where that is the room of all; never below zero. */
  freeSlots(endpointId: string, room: Room): Room {
    return {
      attempts: freeAttempts(this.#loads.get(endpointId), room.attempts, this.#outbox.bounds.concurrencyMax),
      ahead: this.#ahead.wants(endpointId, room.ahead),
    };
  }

  /** How many have not come back. */
  count(): number {
    return this.#running.size;
  }

  /** Takes the ended attempts. */
  takeBack(): readonly Attempt<D, A>[] {
    const taken = this.#back;
    this.#back = [];
    return taken;
  }

  /** Takes waiting deliveries that should not begin here. */
  takeIdle(): readonly D[] {
    for (const endpointId of this.#ahead.endpoints()) while (this.#beginNext(endpointId));
    return this.#ahead.remove((endpointId) => this.#isIdle(endpointId), this.#deps.clock.now());
  }

  /** No waiting delivery begins from now on. */
  beginNoMore(): void {
    this.#isEnding = true;
  }

  /** Returns attempts that could not be recorded. */
  putBack(attempts: readonly Attempt<D, A>[]): void {
    this.#back = [...attempts, ...this.#back];
  }

  /** Aborts attempts in flight and drops waiting deliveries. */
  abandon(): readonly D[] {
    for (const controller of this.#running.values()) controller.abort();
    return [...this.#running.keys(), ...this.#ahead.remove(() => true, this.#deps.clock.now())];
  }

  #attemptsFree(endpointId: string): number {
    return freeAttempts(
      this.#loads.get(endpointId),
      this.room().attempts,
      this.#outbox.bounds.concurrencyMax,
    );
  }

  #begin(delivery: D): void {
    const { endpointId } = delivery;
    const controller = new AbortController();
    this.#running.set(delivery, controller);
    const load = this.#loads.get(endpointId) ?? { inFlight: 0, failures: 0 };
    load.inFlight += 1;
    this.#loads.set(endpointId, load);
    attemptOnce(this.#deps, this.#outbox, delivery, controller.signal).then(
      (attempt) => {
        // The outcome of an abandoned attempt says nothing about the endpoint.
        if (controller.signal.aborted) return;
        this.#back.push(attempt);
        const { hasSucceeded } = attempt.answer;
        this.#ahead.noteAnswer(endpointId, hasSucceeded ? attempt.latencyMs : null);
        this.#end(delivery, load, hasSucceeded);
      },
      (error: unknown) => {
        // Such as a secret that cannot be unsealed: an internal error. It is retried when the lock expires,
        // and until then it keeps its slot.
        this.#deps.logger.error({ err: error, endpoint: endpointId }, 'a delivery could not be attempted');
        this.#ahead.noteAnswer(endpointId, null);
        setTimeout(() => this.#end(delivery, load, false), this.#outbox.bounds.lockMs).unref();
      },
    );
  }

  #end(delivery: D, load: Load, hasSucceeded: boolean): void {
    const { endpointId } = delivery;
    this.#running.delete(delivery);
    load.inFlight -= 1;
    load.failures = hasSucceeded ? 0 : load.failures + 1;
    const isForgotten = load.failures === 0 || this.#loads.size > outboxLimits.loadsMax;
    if (load.inFlight === 0 && isForgotten) this.#loads.delete(endpointId);
    const hasBegun = this.#beginNext(endpointId);
    // While enough waits, what has come back is written down together.
    if (!hasBegun || this.#ahead.wants(endpointId, this.#ahead.room()) > 0) this.#onBack();
  }

  /**
   * Begins what waits for this endpoint, unless it failed last. Where little room is left it does not: others
   * wait for that in the queue.
   */
  #beginNext(endpointId: string): boolean {
    if (this.#isEnding || (this.#loads.get(endpointId)?.failures ?? 0) > 0) return false;
    if (this.room().attempts < outboxLimits.roomShares) return false;
    if (this.#attemptsFree(endpointId) === 0) return false;
    const next = this.#ahead.next(endpointId, this.#deps.clock.now());
    if (next !== null) this.#begin(next);
    return next !== null;
  }

  #isIdle(endpointId: string): boolean {
    const load = this.#loads.get(endpointId);
    return this.#isEnding || load === undefined || load.inFlight === 0 || load.failures > 0;
  }
}

/**
 * Halved with every failure in a row: an endpoint that hangs holds one attempt, and still shows when it is
 * back. And the fewer are left for all, the fewer for each: otherwise as many endpoints as there are in one
 * account, when they hang together, would hold all of them.
 */
function freeAttempts(load: Load | undefined, room: number, concurrencyMax: number): number {
  const { inFlight: underWay, failures } = load ?? { inFlight: 0, failures: 0 };
  const most = concurrencyMax >> Math.min(failures, 16);
  const slots = Math.max(1, Math.min(most, Math.floor(room / outboxLimits.roomShares)));
  return Math.max(0, slots - underWay);
}
