import type { UnixMillis } from '../../shared/model/time.ts';
import type { BaseDeps } from '../base/deps.ts';
import { attemptOnce } from './attempt.ts';
import { outboxLimits } from './limits.ts';
import type { Answer, Attempt, Claimed, Outbox, OutboxBounds } from './outbox.ts';

export interface Room {
  readonly attempts: number;
  /** Of deliveries that are claimed beyond the attempts under way. */
  readonly ahead: number;
}

/** An endpoint with attempts in flight, or whose last one is remembered. */
interface Endpoint<D> {
  inFlight: number;
  /** Attempts in a row that failed. */
  failures: number;
  /** Time of the last answer; null: that was no success. */
  latencyMs: number | null;
  /** What is claimed beyond the attempts, the longest due first. */
  ahead: D[];
}

type AttemptDeps = Pick<BaseDeps, 'clock' | 'random' | 'logger'>;

/**
 * The attempts of this replica: in flight, ended and not yet recorded, and deliveries claimed ahead. An
 * endpoint that answers fast has some of these, so that its attempts follow each other without a journey to
 * the database between them.
 *
 *     claimed ──> ahead ──its turn──> running ──answered──> back ──> written down
 *         └───────────────────────────┘
 */
export class AttemptsInFlight<D extends Claimed, A extends Answer> {
  readonly #deps: AttemptDeps;
  readonly #outbox: Outbox<D, A>;
  readonly #onBack: () => void;
  /** The longest silent first. */
  readonly #endpoints = new Map<string, Endpoint<D>>();
  /** Those with something ahead. */
  readonly #waiting = new Map<string, Endpoint<D>>();
  readonly #running = new Map<D, AbortController>();
  #aheadCount = 0;
  #back: Attempt<D, A>[] = [];
  #isEnding = false;

  /** `onBack` is called when there is something to write down or to claim. */
  constructor(deps: AttemptDeps, outbox: Outbox<D, A>, onBack: () => void) {
    this.#deps = deps;
    this.#outbox = outbox;
    this.#onBack = onBack;
  }

  /** Begins an attempt, or has it wait for one of its endpoint to end. */
  start(delivery: D): void {
    const { endpointId } = delivery;
    const endpoint = this.#endpoints.get(endpointId) ?? silent();
    this.#endpoints.set(endpointId, endpoint);
    if (this.#attemptsFree(endpoint) > 0) {
      this.#begin(delivery, endpoint);
      return;
    }
    endpoint.ahead.push(delivery);
    this.#waiting.set(endpointId, endpoint);
    this.#aheadCount += 1;
  }

  /** How many more may begin and how many more may wait, at all endpoints together. */
  room(): Room {
    return {
      attempts: outboxLimits.attemptsAtOnceMax - this.#running.size - this.#back.length,
      ahead: outboxLimits.aheadAtOnceMax - this.#aheadCount,
    };
  }

  /** How many more of this one may begin or wait, where that is the room of all; never below zero. */
  freeSlots(endpointId: string, room: Room): Room {
    const endpoint = this.#endpoints.get(endpointId) ?? silent();
    const { bounds } = this.#outbox;
    return {
      attempts: freeAttempts(endpoint, room.attempts, bounds.concurrencyMax),
      ahead: wantedAhead(endpoint, room.ahead, bounds),
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
    const nowMs = this.#deps.clock.now();
    return [...this.#waiting].flatMap(([endpointId, endpoint]) => {
      while (this.#beginNext(endpointId, endpoint));
      const { inFlight, failures, ahead } = endpoint;
      const isIdle = this.#isEnding || inFlight === 0 || failures > 0;
      const fresh = isIdle ? -1 : ahead.findIndex((delivery) => !this.#isOld(delivery, nowMs));
      const taken = this.#takeAhead(endpointId, endpoint, fresh === -1 ? ahead.length : fresh);
      // What is left so long shows that the endpoint is fast no more.
      if (taken.length > 0) endpoint.latencyMs = null;
      return taken;
    });
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
    this.beginNoMore();
    for (const controller of this.#running.values()) controller.abort();
    return [...this.#running.keys(), ...this.takeIdle()];
  }

  #attemptsFree(endpoint: Endpoint<D>): number {
    return freeAttempts(endpoint, this.room().attempts, this.#outbox.bounds.concurrencyMax);
  }

  #begin(delivery: D, endpoint: Endpoint<D>): void {
    const { endpointId } = delivery;
    const controller = new AbortController();
    this.#running.set(delivery, controller);
    endpoint.inFlight += 1;
    attemptOnce(this.#deps, this.#outbox, delivery, controller.signal).then(
      (attempt) => {
        // The outcome of an abandoned attempt says nothing about the endpoint.
        if (controller.signal.aborted) return;
        this.#back.push(attempt);
        endpoint.latencyMs = attempt.answer.hasSucceeded ? attempt.latencyMs : null;
        this.#end(delivery, endpoint, attempt.answer.hasSucceeded);
      },
      (error: unknown) => {
        // Such as a secret that cannot be unsealed: an internal error. It is retried when the lock expires,
        // and until then it keeps its slot.
        this.#deps.logger.error({ err: error, endpoint: endpointId }, 'a delivery could not be attempted');
        endpoint.latencyMs = null;
        setTimeout(() => this.#end(delivery, endpoint, false), this.#outbox.bounds.lockMs).unref();
      },
    );
  }

  #end(delivery: D, endpoint: Endpoint<D>, hasSucceeded: boolean): void {
    const { endpointId } = delivery;
    this.#running.delete(delivery);
    endpoint.inFlight -= 1;
    endpoint.failures = hasSucceeded ? 0 : endpoint.failures + 1;
    this.#endpoints.delete(endpointId);
    this.#endpoints.set(endpointId, endpoint);
    this.#forget();
    const hasBegun = this.#beginNext(endpointId, endpoint);
    // While enough waits, what has come back is written down together.
    const wanted = wantedAhead(endpoint, this.room().ahead, this.#outbox.bounds);
    if (!hasBegun || wanted > 0) this.#onBack();
  }

  /** The longest silent of more than `outboxLimits.endpointsMax`. */
  #forget(): void {
    for (const [endpointId, { inFlight, ahead }] of this.#endpoints) {
      if (this.#endpoints.size <= outboxLimits.endpointsMax) return;
      if (inFlight === 0 && ahead.length === 0) this.#endpoints.delete(endpointId);
    }
  }

  /**
   * Begins what waits for this endpoint, unless it failed last or that was claimed too long ago. Where little
   * room is left it does not: others wait for that in the queue.
   */
  #beginNext(endpointId: string, endpoint: Endpoint<D>): boolean {
    const [first] = endpoint.ahead;
    if (this.#isEnding || first === undefined || endpoint.failures > 0) return false;
    if (this.room().attempts < outboxLimits.roomShares || this.#attemptsFree(endpoint) === 0) return false;
    if (this.#isOld(first, this.#deps.clock.now())) return false;
    this.#takeAhead(endpointId, endpoint, 1);
    this.#begin(first, endpoint);
    return true;
  }

  #takeAhead(endpointId: string, endpoint: Endpoint<D>, count: number): readonly D[] {
    const taken = endpoint.ahead.splice(0, count);
    this.#aheadCount -= taken.length;
    if (endpoint.ahead.length === 0) this.#waiting.delete(endpointId);
    return taken;
  }

  #isOld({ lockEndsAtMs }: D, nowMs: UnixMillis): boolean {
    return lockEndsAtMs - nowMs < this.#outbox.bounds.lockMs - outboxLimits.aheadMsMax;
  }
}

const silent = <D>(): Endpoint<D> => ({ inFlight: 0, failures: 0, latencyMs: null, ahead: [] });

/**
 * Halved with every failure in a row: an endpoint that hangs holds one attempt, and still shows when it is
 * back. And the fewer are left for all, the fewer for each: otherwise as many endpoints as there are in one
 * account, when they hang together, would hold all of them.
 */
function freeAttempts(
  { inFlight, failures }: Endpoint<unknown>,
  room: number,
  concurrencyMax: number,
): number {
  const most = concurrencyMax >> Math.min(failures, 16);
  const slots = Math.max(1, Math.min(most, Math.floor(room / outboxLimits.roomShares)));
  return Math.max(0, slots - inFlight);
}

/**
 * How many more to claim ahead, where `room` is left for all: what the endpoint takes in `aheadMsAimed`, by
 * the time of its last answer. None until half is used up, so that a journey is worth it.
 */
function wantedAhead(
  { latencyMs, ahead }: Endpoint<unknown>,
  room: number,
  { aheadMax, concurrencyMax }: OutboxBounds,
): number {
  if (latencyMs === null) return 0;
  const rounds = Math.floor(outboxLimits.aheadMsAimed / Math.max(1, latencyMs));
  const aim = Math.min(aheadMax, rounds * concurrencyMax);
  const most = Math.min(aim, Math.floor(room / outboxLimits.roomShares));
  return ahead.length * 2 <= most ? most - ahead.length : 0;
}
