/**
 * Room `shared/telemetry`: spans and metrics for a collector of OpenTelemetry, over OTLP/HTTP. `options.ts`
 * reads the settings, `tracer.ts` begins spans, `sampler.ts` chooses them. What sends them is loaded only
 * where something is exported: `exporting.ts` puts it together, `span-queue.ts` and `metrics-reporter.ts`
 * send to `collector.ts`, `losses.ts` counts what did not reach it, `otlp-wire.ts` and `metric-data.ts` have
 * the form.
 */

import type { OtelSettings } from '../runtime/otel-settings.ts';
import { telemetryOptions } from './options.ts';
import type { Telemetry, TelemetryParts } from './telemetry.ts';

/** Null: nothing is exported, and nothing was loaded. A setting that cannot be used is logged. */
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
  const { exportTo } = await import('./exporting.ts');
  return exportTo(options, parts);
}

/** The rest of an address may hold a key. */
const hostOf = (url: string | null): string | null => (url === null ? null : new URL(url).host);
