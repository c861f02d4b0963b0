import { type Repetition, repeat } from '../runtime/repeat.ts';
import type { Collector } from './collector.ts';
import { telemetryLimits } from './limits.ts';
import type { Losses } from './losses.ts';
import type { MetricFigures } from './metric-data.ts';
import type { OtlpWire } from './otlp-wire.ts';

export interface MetricsReporterDeps {
  readonly collector: Pick<Collector, 'send'>;
  readonly wire: Pick<OtlpWire, 'metrics' | 'rejectedPoints'>;
  readonly losses: Losses;
  readonly intervalMs: number;
  /** What `/metrics` shows. */
  readonly read: () => Promise<readonly MetricFigures[]>;
}

/**
 * Sends what `/metrics` shows, once in an interval and once at the end. What is not delivered is not sent
 * again: the next one contains it, because counters only grow.
 */
export class MetricsReporter {
  readonly #deps: MetricsReporterDeps;
  readonly #ending = new AbortController();
  readonly #loop: Repetition;
  readonly #from = Date.now();
  #isFirst = true;

  constructor(deps: MetricsReporterDeps) {
    this.#deps = deps;
    this.#loop = repeat(async ({ isStopped }) => {
      const afterMs = this.#isFirst || isStopped ? 0 : await this.#report();
      this.#isFirst = false;
      return Math.max(deps.intervalMs, afterMs);
    });
  }

  /** Reports once more, and waits at most `flushMsMax`. Never rejects. */
  async close(): Promise<void> {
    const timer = setTimeout(() => this.#ending.abort(), telemetryLimits.flushMsMax);
    await this.#loop.stop();
    if (!this.#ending.signal.aborted) await this.#report();
    clearTimeout(timer);
  }

  /** How long the collector wants to be left alone. Never throws. */
  async #report(): Promise<number> {
    const { collector, wire, losses, read } = this.#deps;
    try {
      const figures = await read();
      const points = figures.reduce((sum, { values }) => sum + values.length, 0);
      const body = wire.metrics(figures, { from: this.#from, to: Date.now() });
      const outcome = await collector.send(body, this.#ending.signal);
      if (outcome.kind === 'taken') {
        const rejected = Math.min(wire.rejectedPoints(outcome.answer), points);
        if (rejected === 0) losses.noteDelivery('metrics');
        else losses.note('metrics', 'rejected', rejected);
        return 0;
      }
      const reason = outcome.kind === 'refused' ? 'refused' : 'undelivered';
      losses.note('metrics', reason, points, outcome.about);
      return outcome.kind === 'again' ? (outcome.afterMs ?? 0) : 0;
    } catch (error) {
      losses.note('metrics', 'refused', 1, { err: error });
      return 0;
    }
  }
}
