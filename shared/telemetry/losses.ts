import type { Logger } from '../runtime/logger.ts';
import { telemetryLimits } from './limits.ts';

export type Signal = 'traces' | 'metrics';

/**
 * Why spans or data points did not reach the collector:
 *
 *   queue_full   more were made than it takes
 *   undelivered  it was away, busy or late, and its tries are over
 *   refused      it refused a request for good, or a request could not be made of them
 *   rejected     it took a request, but for these (partial success)
 *   stopped      they were left when the program stopped
 */
export const lossReasons = ['queue_full', 'undelivered', 'refused', 'rejected', 'stopped'] as const;
export type LossReason = (typeof lossReasons)[number];

export interface LossCount {
  readonly signal: Signal;
  readonly reason: LossReason;
  readonly count: number;
}

/** Counts what is lost, and logs when that begins and when it is over. */
export class Losses {
  readonly #counts = new Map<string, { signal: Signal; reason: LossReason; count: number }>();
  readonly #logger: Logger;
  /** Of each signal that is being lost: when it was last, and how much since it began. */
  readonly #losing = new Map<Signal, { lastAtMs: number; lost: number }>();

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  get counts(): Iterable<LossCount> {
    return this.#counts.values();
  }

  /** `about`: what is known of the cause, for the log. */
  note(signal: Signal, reason: LossReason, count: number, about: object = {}): void {
    if (count <= 0) return;
    const key = `${signal} ${reason}`;
    const counted = this.#counts.get(key);
    if (counted === undefined) this.#counts.set(key, { signal, reason, count });
    else counted.count += count;
    const losing = this.#losing.get(signal);
    this.#losing.set(signal, { lastAtMs: performance.now(), lost: (losing?.lost ?? 0) + count });
    if (losing !== undefined) return;
    this.#logger.warn(
      { signal, reason, count, ...about },
      'telemetry is lost on its way to the collector; the metric telemetry_lost_total counts it',
    );
  }

  /** Something was delivered whole. */
  noteDelivery(signal: Signal): void {
    const losing = this.#losing.get(signal);
    if (losing === undefined || performance.now() - losing.lastAtMs < telemetryLimits.quietMsMin) return;
    this.#losing.delete(signal);
    this.#logger.info({ signal, lost: losing.lost }, 'telemetry reaches the collector again');
  }
}
