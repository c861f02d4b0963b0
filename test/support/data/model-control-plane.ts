import { limits } from '../../../shared/model/limits.ts';
import type {
  EpochEnd,
  SettlementVoid,
  ShipAnswer,
  SpooledRecord,
  VoidRun,
} from '../../../shared/wire/sync/sync.ts';
import { isVoid, parseBody } from './spooled.ts';

/** The rules of ingest in thirty lines, without a database: what a shipper may expect of a control plane. */
export class ModelControlPlane {
  newestConnection = 'connection-1';
  readonly lastSeqs = new Map<string, number>();
  /** In the order in which they were taken. */
  readonly records: SpooledRecord[] = [];
  readonly settlementVoids: SettlementVoid[] = [];
  readonly voids: (VoidRun & { readonly epoch: string; readonly seq: number })[] = [];
  /** By epoch, as it was notified last. */
  readonly ends = new Map<string, EpochEnd>();
  /** Ids of records that are refused. */
  readonly refusedIds = new Set<string>();
  /** How many elements each batch had that arrived. */
  readonly batchSizes: number[] = [];

  take(body: Uint8Array): ShipAnswer {
    const batch = parseBody(body);
    if (body.length > limits.ingestBodyBytesMax) throw new Error('body_too_large');
    if (batch.records.length > limits.ingestRecordsMax) throw new Error('too many records');
    if (batch.records.length === 0 && batch.end === undefined) throw new Error('an empty batch');
    if (batch.records.length > 0) this.batchSizes.push(batch.records.length);
    if (batch.connection_id !== this.newestConnection) return { kind: 'superseded' };
    const lastSeq = this.lastSeqs.get(batch.epoch) ?? 0;
    if (batch.first_seq > lastSeq + 1) return { kind: 'gap', expectedSeq: lastSeq + 1 };
    let next = batch.first_seq;
    const numbered = batch.records.map((item) => {
      next += isVoid(item) ? item.count : 1;
      return { item, seq: next - 1 };
    });
    const fresh = numbered.filter(({ seq }) => seq > lastSeq);
    const refused = fresh.filter(({ item }) => 'id' in item && this.refusedIds.has(item.id));
    if (refused.length > 0) {
      return { kind: 'refused', refused: refused.map(({ seq }) => ({ seq, message: 'not liked' })) };
    }
    for (const { item, seq } of fresh) {
      if (isVoid(item)) this.voids.push({ ...item, epoch: batch.epoch, seq });
      else if ('voids' in item) this.settlementVoids.push(item);
      else this.records.push(item);
    }
    if (batch.end !== undefined) this.ends.set(batch.epoch, batch.end);
    this.lastSeqs.set(batch.epoch, Math.max(next - 1, lastSeq));
    return { kind: 'taken', nextSeq: Math.max(next, lastSeq + 1) };
  }
}
