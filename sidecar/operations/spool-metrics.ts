import { Gauge, Histogram } from 'prom-client';
import type { Clock } from '../../shared/runtime/clock.ts';
import type { Shipper } from '../attest/shipper.ts';
import type { Spool } from '../attest/spool.ts';
import type { Figures } from './figures.ts';

export interface MeasuredSpool {
  readonly spool: Pick<Spool, 'bytes' | 'bytesMax' | 'waitingBytes' | 'isFull' | 'fsyncs' | 'kept'>;
  readonly shipper: Pick<
    Shipper,
    'shippedRecords' | 'voidedRecords' | 'damagedPlaces' | 'tornEnds' | 'oldestDecidedAtMs'
  >;
  readonly clock: Pick<Clock, 'now'>;
}

/** A dedicated disk syncs within 1 ms, a busy shared one within 100 ms; past 2 s callers are refused. */
const fsyncBucketsS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5];

/** The figures of the spool and of its shipper. */
export function spoolMetrics(figures: Figures, measured: MeasuredSpool): void {
  diskMetrics(figures, measured);
  shipperMetrics(figures, measured);
  const fsync = new Histogram({
    name: 'agent_trust_sidecar_spool_fsync_duration_seconds',
    help: 'Duration of each fsync of the spool.',
    buckets: fsyncBucketsS,
    registers: [figures.registry],
  });
  measured.spool.fsyncs.push((seconds) => fsync.observe(seconds));
}

function diskMetrics(figures: Figures, { spool, shipper, clock }: MeasuredSpool): void {
  figures.gauge(
    'spool_bytes',
    'Records on disk that the control plane has not accepted yet.',
    () => spool.waitingBytes,
  );
  figures.gauge(
    'spool_used_bytes',
    'Files of the spool on disk, shipped parts that are not deleted yet included.',
    () => spool.bytes,
  );
  figures.gauge(
    'spool_capacity_bytes',
    'Size of all files at which the spool stops accepting records.',
    () => spool.bytesMax,
  );
  figures.gauge(
    'spool_kept_bytes',
    'Shipped records on disk that are kept to be handed in again after a restore of the database.',
    () => spool.kept.bytes,
  );
  figures.counts(
    'spool_kept_dropped_total',
    'Segments of shipped records that are kept no longer, by reason: age, size, disk_full.',
    {
      labelNames: ['reason'],
      read: function* () {
        for (const [reason, count] of Object.entries(spool.kept.dropped)) yield [{ reason }, count];
      },
    },
  );
  figures.gauge(
    'spool_handing_in_segments',
    'Segments of shipped records that are being handed in again, because a new history has begun.',
    () => spool.kept.pendingCount,
  );
  figures.gauge('spool_full', '1 while the spool accepts no records and every request is answered 503.', () =>
    Number(spool.isFull),
  );
  new Gauge({
    name: 'agent_trust_sidecar_spool_oldest_unshipped_seconds',
    help: 'Age of the oldest record that the control plane has not accepted; 0 if it has accepted all.',
    registers: [figures.registry],
    aggregator: 'max',
    async collect() {
      const decidedAtMs = await shipper.oldestDecidedAtMs();
      this.set(decidedAtMs === null ? 0 : Math.max(0, clock.now() - decidedAtMs) / 1_000);
    },
  });
}

function shipperMetrics(figures: Figures, { shipper }: MeasuredSpool): void {
  figures.counter(
    'spool_shipped_records_total',
    'Records that the control plane has accepted.',
    () => shipper.shippedRecords,
  );
  figures.counter(
    'spool_damaged_places_total',
    'Damaged places of the spool, whose records are lost and whose bytes are in the quarantine folder.',
    () => shipper.damagedPlaces,
  );
  figures.counter(
    'spool_torn_ends_total',
    'Spools of earlier starts that ended in the middle of a record, because a crash interrupted the last write.',
    () => shipper.tornEnds,
  );
  figures.counts(
    'spool_voided_records_total',
    'Records that will never be shipped: refused by the control plane and kept in a file, damaged, or missing on disk.',
    {
      labelNames: ['reason'],
      read: function* () {
        for (const [reason, count] of Object.entries(shipper.voidedRecords)) yield [{ reason }, count];
      },
    },
  );
}
