import type { Registry } from 'prom-client';
import type { Logger } from '../runtime/logger.ts';
import type { Random } from '../runtime/random.ts';
import type { Tracer } from './tracer.ts';

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
