import type { Metric, Registry } from 'prom-client';

/**
 * Durations by size, for code that runs in microseconds: observing one adds to two numbers of an array, where
 * the histogram of prom-client looks its labels up and makes objects. What it has counted is turned into the
 * form of Prometheus when somebody asks.
 */
export class DurationHistogram {
  readonly #boundsMs: readonly number[];
  /** One for each bound, and one for what is longer than all. */
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

  /** How many there were so far, for each bound and beyond the last one. */
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
    // What the registry and its aggregator call of a metric; the declared type wants the whole class of the
    // library.
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
