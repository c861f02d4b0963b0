import type { MonotonicMillis } from '../../shared/model/time.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { replicaLimits } from './limits.ts';

export interface CatchUpDeps {
  readonly clock: Pick<Clock, 'monotonic'>;
  /** Up to when the state is known to be complete here; minus infinity where that is not known. */
  readonly asOfMs: () => number;
  readonly logger: Logger;
}

/**
 * Whether this event loop may decide. One that was stopped (SIGSTOP, a machine that slept, a long
 * computation) has missed what was revoked meanwhile, and the requests that waited in its sockets come before
 * any news: so it asks the control plane first.
 *
 *     deciding ──nothing ran for `replicaLimits.loopStopMsMax`──> catching up
 *        ^                                                    │
 *        └── the state is known to be complete at a moment after the stop, or `replicaLimits.catchUpMsMax` are over
 *
 * A control plane that does not answer in that time counts as one that is away: the age of the state decides
 * then (contract §4).
 *
 * The stop is noticed by the next tick or the next request, whichever is first, so nothing is decided
 * between. A look costs nothing where the moment is known already.
 */
export class CatchUp {
  readonly #deps: CatchUpDeps;
  readonly #tick: NodeJS.Timeout;
  /** When this loop was last seen to run. */
  #ranAtMs: number;
  /** When the loop went on after a stop; null while deciding. */
  #resumedAtMs: number | null = null;
  #waiting: (() => void)[] = [];
  /** Set once, by the follower of the feed: asks the control plane at once. */
  onBehind: () => void = () => undefined;

  constructor(deps: CatchUpDeps) {
    this.#deps = deps;
    this.#ranAtMs = deps.clock.monotonic();
    this.#tick = setInterval(() => this.#look(), replicaLimits.loopTickMs);
    this.#tick.unref();
  }

  /** To be asked in each section that decides, with the moment at which it began. False: `wait`. */
  mayDecideAt(nowMs: MonotonicMillis): boolean {
    if (this.#resumedAtMs === null && nowMs - this.#ranAtMs <= replicaLimits.loopStopMsMax) return true;
    this.#look();
    return this.#resumedAtMs === null;
  }

  /** It is catching up, as far as anybody has noticed. */
  get isBehind(): boolean {
    return this.#resumedAtMs !== null;
  }

  /**
   * Calls back when decisions go on, in the order of the calls. False: too many wait already, and this one is
   * not called.
   */
  wait(onMayDecide: () => void): boolean {
    if (this.#waiting.length >= replicaLimits.catchUpWaitersMax) return false;
    this.#waiting.push(onMayDecide);
    return true;
  }

  /** Something new may be known of the state. */
  look(): void {
    if (this.#resumedAtMs !== null) this.#look();
  }

  /** All waiters go on at once. */
  stop(): void {
    clearInterval(this.#tick);
    this.#resumedAtMs = null;
    this.#release();
  }

  #look(): void {
    const { clock, asOfMs, logger } = this.#deps;
    const nowMs = clock.monotonic();
    const stoppedMs = nowMs - this.#ranAtMs;
    this.#ranAtMs = nowMs;
    if (stoppedMs > replicaLimits.loopStopMsMax) {
      this.#resumedAtMs = nowMs;
      logger.warn(
        { stopped_ms: Math.round(stoppedMs) },
        'the event loop was stopped; the sidecar catches up before it decides again',
      );
      this.onBehind();
      return;
    }
    if (this.#resumedAtMs === null) return;
    const isCurrent = asOfMs() >= this.#resumedAtMs;
    if (!isCurrent && nowMs - this.#resumedAtMs < replicaLimits.catchUpMsMax) return;
    if (!isCurrent)
      logger.warn({}, 'the control plane does not answer; decisions depend on the age of the state');
    this.#resumedAtMs = null;
    this.#release();
  }

  /** Each in its own turn of the queue of this loop: one that fails holds up no other. */
  #release(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const resume of waiting) setImmediate(resume);
  }
}
