import { collectDefaultMetrics, Gauge, type Registry } from 'prom-client';

/**
 * The library's gauges named `_total`, a suffix for counters. `nodejs_active_resources` has the same figures
 * by type.
 */
const misnamed = [
  'nodejs_active_handles_total',
  'nodejs_active_requests_total',
  'nodejs_active_resources_total',
];

/** The figures of this process. */
export function addProcessMetrics(registry: Registry): void {
  collectDefaultMetrics({ register: registry });
  for (const name of misnamed) registry.removeSingleMetric(name);
}

/**
 * A gauge that is always 1; its labels carry the information. One per program, because both may be scraped as
 * one job.
 */
export function addBuildInfo(
  registry: Registry,
  name: string,
  labels: Readonly<Record<string, string>>,
): void {
  const all = { ...labels, node: process.versions.node };
  new Gauge({
    name,
    help: 'The running build and its platform, as labels. Always 1.',
    labelNames: Object.keys(all),
    registers: [registry],
    // Equal for all threads of a process.
    aggregator: 'first',
  }).set(all, 1);
}
