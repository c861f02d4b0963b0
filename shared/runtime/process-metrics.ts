import { collectDefaultMetrics, Gauge, type Registry } from 'prom-client';

/**
 * Of the library: gauges that are called `_total`, which is the name of counters. `nodejs_active_resources`
 * says the same by type.
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
 * A gauge that is always 1: what counts is its labels. One for each program, because both may be scraped as
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
    // The same of each thread of a process.
    aggregator: 'first',
  }).set(all, 1);
}
