import { Counter, Gauge, type Registry } from 'prom-client';

const prefix = 'agent_trust_sidecar_';

/** Adds the figures of a sidecar to a registry. Each is read when the registry is. */
export class Figures {
  readonly registry: Registry;

  constructor(registry: Registry) {
    this.registry = registry;
  }

  counter(name: string, help: string, read: () => number): void {
    new Counter({
      name: prefix + name,
      help,
      registers: [this.registry],
      collect() {
        this.reset();
        this.inc(read());
      },
    });
  }

  /** A counter with labels. */
  counts<Label extends string>(
    name: string,
    help: string,
    {
      labelNames,
      read,
    }: { labelNames: Label[]; read: () => Iterable<readonly [Record<Label, string>, number]> },
  ): void {
    new Counter({
      name: prefix + name,
      help,
      labelNames,
      registers: [this.registry],
      collect() {
        this.reset();
        for (const [labels, count] of read()) this.inc(labels, count);
      },
    });
  }

  /** `of`: the figure of several threads. */
  gauge(name: string, help: string, read: () => number, of: 'sum' | 'max' | 'min' = 'sum'): void {
    new Gauge({
      name: prefix + name,
      help,
      registers: [this.registry],
      aggregator: of,
      collect() {
        this.set(read());
      },
    });
  }
}
