import { Counter, type Registry } from 'prom-client';
import { packageVersion } from '../runtime/package-version.ts';
import { Collector } from './collector.ts';
import { Losses } from './losses.ts';
import type { MetricFigures } from './metric-data.ts';
import { MetricsReporter } from './metrics-reporter.ts';
import type { TelemetryOptions } from './options.ts';
import { OtlpWire } from './otlp-wire.ts';
import { SpanQueue } from './span-queue.ts';
import type { Telemetry, TelemetryParts } from './telemetry.ts';
import { Tracer } from './tracer.ts';

/** Import it where something is exported: it loads an HTTP client and the library of OpenTelemetry. */
export function exportTo(options: TelemetryOptions, parts: TelemetryParts): Telemetry {
  const wire = new OtlpWire({
    format: options.format,
    resource: resourceOf(options, parts),
    scope: { name: 'agent-trust', version: packageVersion },
  });
  return new Exporting(options, wire, parts);
}

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
