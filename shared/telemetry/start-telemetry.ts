/**
 * Room `shared/telemetry`: spans and metrics for a collector of OpenTelemetry, over OTLP/HTTP. `tracer.ts`
 * begins spans, `sampler.ts` chooses them, `span-queue.ts` and `metrics-reporter.ts` send them,
 * `collector.ts` is the other side, `losses.ts` counts what did not reach it. `otlp-wire.ts` and
 * `metric-data.ts` have the form, and are loaded only where something is exported.
 */

import { Counter, type Registry } from 'prom-client';
import type { Logger } from '../runtime/logger.ts';
import type { OtelSettings } from '../runtime/otel-settings.ts';
import { packageVersion } from '../runtime/package-version.ts';
import type { Random } from '../runtime/random.ts';
import { Collector } from './collector.ts';
import { Losses } from './losses.ts';
import type { MetricFigures } from './metric-data.ts';
import { MetricsReporter } from './metrics-reporter.ts';
import { type TelemetryOptions, telemetryOptions } from './options.ts';
import type { OtlpWire } from './otlp-wire.ts';
import { SpanQueue } from './span-queue.ts';
import { Tracer } from './tracer.ts';

export interface Telemetry {
  /** Null: no traces are exported. */
  readonly tracer: Tracer | null;
  /** Adds what is lost on the way to the collector to the program's own metrics. */
  addLosses(registry: Registry, name: string): void;
  /**
   * Exports these metrics from now on, until the returned function is called, which sends them once more; all
   * that they are read from has to work until then. Where no metrics are exported it does nothing.
   */
  report(registry: () => Promise<Registry>): () => Promise<void>;
  /** Sends the spans that are left, and waits at most `telemetryLimits.flushMsMax`. Never rejects. */
  close(): Promise<void>;
}

export interface TelemetryParts {
  /** Without OTEL_SERVICE_NAME. */
  readonly serviceName: string;
  readonly random: Random;
  readonly logger: Logger;
}

/** Null: nothing is exported, and nothing was loaded. Never throws: a program does not depend on it. */
export async function startTelemetry(
  settings: OtelSettings,
  parts: TelemetryParts,
): Promise<Telemetry | null> {
  const { options, problems } = telemetryOptions(settings);
  for (const problem of problems)
    parts.logger.warn({}, `${problem}: nothing is exported to the collector until that is mended`);
  if (options === null) return null;
  parts.logger.info(
    { traces: hostOf(options.tracesUrl), metrics: hostOf(options.metricsUrl), protocol: options.format },
    'exporting to a collector of OpenTelemetry',
  );
  const { OtlpWire } = await import('./otlp-wire.ts');
  const wire = new OtlpWire({
    format: options.format,
    resource: resourceOf(options, parts),
    scope: { name: 'agent-trust', version: packageVersion },
  });
  return new Exporting(options, wire, parts);
}

/** The rest of an address may hold a key. */
const hostOf = (url: string | null): string | null => (url === null ? null : new URL(url).host);

const resourceOf = ({ resource, serviceName }: TelemetryOptions, parts: TelemetryParts) => ({
  'service.name': parts.serviceName,
  'service.version': packageVersion,
  'service.instance.id': Buffer.from(parts.random.bytes(16)).toString('hex'),
  ...resource,
  ...(serviceName !== null && { 'service.name': serviceName }),
});

class Exporting implements Telemetry {
  readonly tracer: Tracer | null = null;
  readonly #options: TelemetryOptions;
  readonly #wire: OtlpWire;
  readonly #losses: Losses;
  readonly #queue: SpanQueue | null = null;
  readonly #collectors: Collector[] = [];

  constructor(options: TelemetryOptions, wire: OtlpWire, { random, logger }: TelemetryParts) {
    this.#options = options;
    this.#wire = wire;
    this.#losses = new Losses(logger);
    if (options.tracesUrl === null) return;
    const collector = this.#collectorAt(options.tracesUrl);
    const queue = new SpanQueue({ collector, wire, losses: this.#losses, random });
    this.#queue = queue;
    const bytes = (count: number) => random.bytes(count);
    this.tracer = new Tracer({ sampler: options.sampler, take: queue.push, bytes });
  }

  addLosses(registry: Registry, name: string): void {
    const losses = this.#losses;
    new Counter({
      name,
      help: 'Spans and data points that did not reach the OpenTelemetry collector, by reason.',
      labelNames: ['signal', 'reason'],
      registers: [registry],
      collect() {
        this.reset();
        for (const { signal, reason, count } of losses.counts) this.inc({ signal, reason }, count);
      },
    });
  }

  report(registry: () => Promise<Registry>): () => Promise<void> {
    const { metricsUrl, metricIntervalMs: intervalMs } = this.#options;
    if (metricsUrl === null) return async () => undefined;
    const reporter = new MetricsReporter({
      ...{ collector: this.#collectorAt(metricsUrl), wire: this.#wire, losses: this.#losses, intervalMs },
      // Its declared type names the kinds by an enumeration, where the values are their words.
      read: async () => (await (await registry()).getMetricsAsJSON()) as unknown as MetricFigures[],
    });
    return () => reporter.close();
  }

  async close(): Promise<void> {
    await this.#queue?.close();
    await Promise.all(this.#collectors.map((collector) => collector.close()));
  }

  #collectorAt(url: string): Collector {
    const headers = { ...this.#options.headers, 'content-type': this.#wire.contentType };
    const collector = new Collector({ url, headers });
    this.#collectors.push(collector);
    return collector;
  }
}
