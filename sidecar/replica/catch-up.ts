import type { MonotonicMillis } from '../../shared/model/time.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { replicaLimits } from './limits.ts';

export interface CatchUpDeps {
  readonly clock: Pick<Clock, 'monotonic'>;
  /** The moment up to which the state is known to be complete; minus infinity if unknown. */
  readonly asOfMs: () => number;
  readonly logger: Logger;
}

/**
 * Whether this event loop may decide. A loop that was stopped (SIGSTOP, a sleep of the machine, a long
 * computation) has missed revocations, and would read the requests in its sockets before any news. So it asks
 * the control plane first.
 *
 *     deciding ──nothing ran for `replicaLimits.loopStopMsMax`──> catching up
 *        ^                                                    │
 *        └── the state is known to be complete at a moment after the stop, or `replicaLimits.catchUpMsMax` are over
 *
 * A control plane that does not answer in that time counts as away: the age of the state decides (contract
 * §4).
 *
 * The next tick or request notices the stop, so nothing is decided in between.
 */
export class CatchUp {
  readonly #deps: CatchUpDeps;
  readonly #tick: NodeJS.Timeout;
  /** When this loop last ran. */
  #ranAtMs: number;
  /** When the loop resumed after a stop; null while deciding. */
  #resumedAtMs: number | null = null;
  #waiting: (() => void)[] = [];
  /** Set once, by the follower of the feed: pulls at once. */
  onBehind: () => void = () => undefined;

  constructor(deps: CatchUpDeps) {
    this.#deps = deps;
    this.#ranAtMs = deps.clock.monotonic();
    this.#tick = setInterval(() => this.#look(), replicaLimits.loopTickMs);
    this.#tick.unref();
  }

  /** Called by each section that decides, with its moment. False: call `wait`. */
  mayDecideAt(nowMs: MonotonicMillis): boolean {
    if (this.#resumedAtMs === null && nowMs - this.#ranAtMs <= replicaLimits.loopStopMsMax) return true;
    this.#look();
    return this.#resumedAtMs === null;
  }

  /** Catching up, if the stop was noticed. */
  get isBehind(): boolean {
    return this.#resumedAtMs !== null;
  }

  /**
   * Calls back when decisions resume, in the order of the calls. False: too many wait, and there is no
   * callback.
   */
  wait(onMayDecide: () => void): boolean {
    if (this.#waiting.length >= replicaLimits.catchUpWaitersMax) return false;
    this.#waiting.push(onMayDecide);
    return true;
  }

  /** The state may have been confirmed. */
  look(): void {
    if (this.#resumedAtMs !== null) this.#look();
  }

  /** Releases all waiters at once. */
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

  /** Each in its own microtask, so that an exception does not affect the others. */
  #release(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const resume of waiting) setImmediate(resume);
  }
}
