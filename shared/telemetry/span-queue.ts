import type { Random } from '../runtime/random.ts';
import { retryPause } from '../runtime/retry-pause.ts';
import { makeWakeup } from '../runtime/wakeup.ts';
import type { Collector } from './collector.ts';
import { telemetryLimits } from './limits.ts';
import type { Losses } from './losses.ts';
import type { OtlpWire } from './otlp-wire.ts';
import type { EndedSpan } from './tracer.ts';

export interface SpanQueueDeps {
  readonly collector: Pick<Collector, 'send'>;
  readonly wire: Pick<OtlpWire, 'spans' | 'rejectedSpans'>;
  readonly losses: Losses;
  readonly random: Random;
  /** Between attempts. Default: those of telemetryLimits. */
  readonly pauses?: { readonly firstMs: number; readonly lastMs: number };
}

const usualPauses = { firstMs: telemetryLimits.retryFirstMs, lastMs: telemetryLimits.retryLastMs };

/**
 * Spans on their way to the collector, in batches, one request at a time. What finds no room is lost: neither
 * a request nor the memory waits for a collector. (The processor and exporter of OpenTelemetry keep no count
 * of what they drop, or of what a collector rejects.)
 *
 *     waiting ──a batch is full, or its time is over──> sent ──taken──> gone
 *        │                                        ^       ├──refused──> lost
 *        └──no room──> lost                       └─pause─┴──again, at most attemptsMax times──> lost
 */
export class SpanQueue {
  readonly #deps: SpanQueueDeps;
  readonly #waiting: EndedSpan[] = [];
  readonly #batchIsFull = makeWakeup();
  readonly #retryPause = makeWakeup();
  readonly #ending = new AbortController();
  readonly #running: Promise<void>;
  #isStopped = false;

  constructor(deps: SpanQueueDeps) {
    this.#deps = deps;
    this.#running = this.#run();
  }

  readonly push = (span: EndedSpan): void => {
    if (this.#isStopped || this.#waiting.length >= telemetryLimits.waitingSpansMax) {
      this.#deps.losses.note('traces', this.#isStopped ? 'stopped' : 'queue_full', 1);
      return;
    }
    this.#waiting.push(span);
    if (this.#waiting.length === telemetryLimits.batchSpansMax) this.#batchIsFull.wake();
  };

  /** Sends what is left, each batch once, for at most `flushMsMax`. Never rejects. */
  async close(): Promise<void> {
    this.#isStopped = true;
    const timer = setTimeout(() => this.#ending.abort(), telemetryLimits.flushMsMax);
    this.#batchIsFull.wake();
    this.#retryPause.wake();
    await this.#running;
    while (this.#waiting.length > 0 && !this.#ending.signal.aborted) await this.#sendNext();
    clearTimeout(timer);
    this.#deps.losses.note('traces', 'stopped', this.#waiting.length);
  }

  async #run(): Promise<void> {
    while (!this.#isStopped) {
      if (this.#waiting.length < telemetryLimits.batchSpansMax)
        await this.#batchIsFull.sleep(telemetryLimits.batchWaitMs);
      if (this.#waiting.length > 0 && !this.#isStopped) await this.#sendNext();
    }
  }

  async #sendNext(): Promise<void> {
    const { wire, losses } = this.#deps;
    const batch = this.#waiting.splice(0, telemetryLimits.batchSpansMax);
    try {
      await this.#send(wire.spans(batch), batch.length);
    } catch (error) {
      losses.note('traces', 'refused', batch.length, { err: error });
    }
  }

  async #send(body: Uint8Array, count: number): Promise<void> {
    const { collector, wire, losses, random, pauses = usualPauses } = this.#deps;
    const pause = retryPause(random, pauses);
    for (let attempt = 1; ; attempt++) {
      const outcome = await collector.send(body, this.#ending.signal);
      if (outcome.kind === 'taken') {
        const rejected = Math.min(wire.rejectedSpans(outcome.answer), count);
        if (rejected === 0) losses.noteDelivery('traces');
        else losses.note('traces', 'rejected', rejected);
        return;
      }
      if (outcome.kind === 'refused') return losses.note('traces', 'refused', count, outcome.about);
      if (this.#isStopped) return losses.note('traces', 'stopped', count, outcome.about);
      if (attempt === telemetryLimits.attemptsMax)
        return losses.note('traces', 'undelivered', count, outcome.about);
      await this.#retryPause.sleep(Math.max(pause.nextMs(), outcome.afterMs ?? 0));
    }
  }
}
