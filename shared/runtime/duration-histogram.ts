import type { Metric, Registry } from 'prom-client';

/**
 * A histogram for code that runs in microseconds: an observation adds to two numbers of an array, where
 * prom-client's histogram looks up labels and allocates. Converted to the form of Prometheus at a scrape.
 */
export class DurationHistogram {
  readonly #boundsMs: readonly number[];
  /** One per bound, and one for longer durations. */
  readonly #counts: Float64Array;
  #sumMs = 0;

  /** Ascending, in milliseconds. */
  constructor(boundsMs: readonly number[]) {
    this.#boundsMs = boundsMs;
    this.#counts = new Float64Array(boundsMs.length + 1);
  }

  observe(durationMs: number): void {
    let index = 0;
    while (index < this.#boundsMs.length && durationMs > (this.#boundsMs[index] as number)) index++;
    this.#counts[index] = (this.#counts[index] as number) + 1;
    this.#sumMs += durationMs;
  }

  get boundsMs(): readonly number[] {
    return this.#boundsMs;
  }

  /** The counts so far, per bound and beyond the last. */
  get counts(): readonly number[] {
    return [...this.#counts];
  }

  /**
   * Adds it to the registry under this name, which ends in `_seconds`. The figures of several threads add up.
   */
  register(registry: Registry, { name, help }: { readonly name: string; readonly help: string }): void {
    const get = async () => ({
      name,
      help,
      type: 'histogram',
      aggregator: 'sum',
      values: this.#values(name),
    });
    // The members that registry and aggregator use; the declared type wants the library's whole class.
    registry.registerMetric({ name, help, get } as unknown as Metric);
  }

  #values(name: string): { metricName: string; labels: Record<string, number | string>; value: number }[] {
    let count = 0;
    const buckets = [...this.#boundsMs.map((ms) => ms / 1_000), '+Inf'].map((le, index) => {
      count += this.#counts[index] ?? 0;
      return { metricName: `${name}_bucket`, labels: { le }, value: count };
    });
    return [
      ...buckets,
      { metricName: `${name}_sum`, labels: {}, value: this.#sumMs / 1_000 },
      { metricName: `${name}_count`, labels: {}, value: count },
    ];
  }
}
