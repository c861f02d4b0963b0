import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import type { Clock } from '../../shared/runtime/clock.ts';
import type { Shipper } from './shipper.ts';
import type { Spool } from './spool.ts';

export interface MeasuredSpool {
  readonly spool: Pick<Spool, 'bytes' | 'bytesMax' | 'waitingBytes' | 'isFull' | 'fsyncs'>;
  readonly shipper: Pick<
    Shipper,
    'shippedRecords' | 'voidedRecords' | 'damagedPlaces' | 'tornEnds' | 'oldestDecidedAtMs'
  >;
  readonly clock: Pick<Clock, 'now'>;
}

/** A dedicated disk syncs within 1 ms, a busy shared one within 100 ms; past 2 s callers are refused. */
const fsyncBucketsS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5];

/** The figures of the spool and of its shipper, for one registry. */
export function spoolMetrics(registry: Registry, { spool, shipper, clock }: MeasuredSpool): void {
  const registers = [registry];
  const prefix = 'agent_trust_sidecar_';
  const gauge = (name: string, help: string, read: () => number, of: 'sum' | 'max' = 'sum'): void => {
    new Gauge({
      name: prefix + name,
      help,
      registers,
      aggregator: of,
      collect() {
        this.set(read());
      },
    });
  };
  const counter = (name: string, help: string, read: () => number): void => {
    new Counter({
      name: prefix + name,
      help,
      registers,
      collect() {
        this.reset();
        this.inc(read());
      },
    });
  };
  gauge(
    'spool_bytes',
    'Records on disk that the control plane has not accepted yet.',
    () => spool.waitingBytes,
  );
  gauge(
    'spool_used_bytes',
    'Files of the spool on disk, shipped parts that are not deleted yet included.',
    () => spool.bytes,
  );
  gauge(
    'spool_capacity_bytes',
    'Size of all files at which the spool stops accepting records.',
    () => spool.bytesMax,
  );
  gauge('spool_full', '1 while the spool accepts no records and every request is answered 503.', () =>
    Number(spool.isFull),
  );
  new Gauge({
    name: `${prefix}spool_oldest_unshipped_seconds`,
    help: 'Age of the oldest record that the control plane has not accepted; 0 if it has accepted all.',
    registers,
    aggregator: 'max',
    async collect() {
      const decidedAtMs = await shipper.oldestDecidedAtMs();
      this.set(decidedAtMs === null ? 0 : Math.max(0, clock.now() - decidedAtMs) / 1_000);
    },
  });
  counter(
    'spool_shipped_records_total',
    'Records that the control plane has accepted.',
    () => shipper.shippedRecords,
  );
  counter(
    'spool_damaged_places_total',
    'Damaged places of the spool, whose records are lost and whose bytes are in the quarantine folder.',
    () => shipper.damagedPlaces,
  );
  counter(
    'spool_torn_ends_total',
    'Spools of earlier starts that ended in the middle of a record, because a crash interrupted the last write.',
    () => shipper.tornEnds,
  );
  new Counter({
    name: `${prefix}spool_voided_records_total`,
    help: 'Records that will never be shipped: refused by the control plane and kept in a file, damaged, or missing on disk.',
    labelNames: ['reason'],
    registers,
    collect() {
      this.reset();
      for (const [reason, count] of Object.entries(shipper.voidedRecords)) this.inc({ reason }, count);
    },
  });
  const fsync = new Histogram({
    name: `${prefix}spool_fsync_duration_seconds`,
    help: 'Duration of each fsync of the spool.',
    buckets: fsyncBucketsS,
    registers,
  });
  spool.fsyncs.push((seconds) => fsync.observe(seconds));
}
