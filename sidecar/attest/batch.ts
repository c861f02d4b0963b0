import { assert, must } from '../../shared/errors/assert.ts';
import type { SidecarId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import { form2Mark, isRecordRow, wholeRecord } from '../../shared/wire/sync/spooled-record.ts';
import type {
  AttestationBatch,
  EpochEnd,
  RecordRow,
  SpooledRecord,
  VoidRun,
} from '../../shared/wire/sync/sync.ts';
import { outcomeMark } from '../../shared/wire/sync/sync.ts';
import type { FrameRecords } from './spool-segment.ts';

/** The sidecar and the process that send the batch. */
export interface ShippingConnection {
  readonly sidecarId: SidecarId;
  readonly connectionId: string;
}

/** Numbers that a batch gives up. */
export interface VoidedRun {
  readonly firstSeq: number;
  readonly count: number;
  readonly reason: VoidRun['void'];
}

/** The envelope of a batch around its records: ids and a number. */
const envelopeBytesMax = 1_024;
const itemsAt = envelopeBytesMax;
const envelopeEnd = ']}';
const comma = 0x2c;

/**
 * Builds an AttestationBatch as JSON. Records are copied from the spool as bytes and never parsed. One object
 * serves many batches, so that shipping takes constant memory.
 *
 *     | ...... {"sidecar_id":...,"records":[ | record , record , ... | ]} ...... |
 *       envelope, flush with the items         items from itemsAt on
 */
export class BatchBuilder {
  epoch = '';
  firstSeq = 0;
  /** Number of the next record. */
  nextSeq = 0;
  recordCount = 0;
  voided: VoidedRun[] = [];
  /** Set by the caller if nothing follows in this epoch. */
  end: EpochEnd | null = null;
  /** More was there than fits: the next batch need not wait. */
  isFull = false;
  /** Some record is in form 2. */
  #isInForm2 = false;

  /** Shared with the sending thread. */
  readonly #bytes = Buffer.from(new SharedArrayBuffer(limits.ingestBodyBytesMax));
  /** After the last item. */
  #end = itemsAt;
  #itemCount = 0;
  /** Start, end and number of each numbered item. */
  readonly #starts = new Uint32Array(limits.ingestRecordsMax);
  readonly #ends = new Uint32Array(limits.ingestRecordsMax);
  readonly #seqs = new Float64Array(limits.ingestRecordsMax);
  /** The shared parts among the items; a row refers to the last ones before it. */
  #shared: { readonly start: number; readonly end: number }[] = [];

  get isEmpty(): boolean {
    return this.#itemCount === 0;
  }

  begin(epoch: string, firstSeq: number): void {
    assert(firstSeq >= 1, 'the records of an epoch are numbered from 1');
    this.epoch = epoch;
    this.firstSeq = firstSeq;
    this.nextSeq = firstSeq;
    this.recordCount = 0;
    this.voided = [];
    this.end = null;
    this.isFull = false;
    this.#end = itemsAt;
    this.#itemCount = 0;
    this.#shared = [];
    this.#isInForm2 = false;
  }

  /**
   * Adds the JSON of the records of a frame in `source`, from index `from` to before `to`, after the shared
   * parts of the frame. Returns how many it took: fewer if the batch is full.
   */
  addRecords(source: Buffer, records: FrameRecords, from: number, to: number): number {
    assert(records.firstSeq + from === this.nextSeq, 'the records of a batch follow each other');
    const start = records.startOf(from);
    const { partsStart, partsEnd } = records;
    // One with rows has parts, in which the mark of form 2 stands.
    if (partsEnd === partsStart && to > from)
      this.#isInForm2 ||= source.subarray(start, records.endOf(to - 1)).includes(outcomeMark);
    const hasParts = partsEnd === partsStart || this.#endsWithParts(source, partsStart, partsEnd);
    const partsBytes = hasParts ? 0 : partsEnd - partsStart + 1;
    const room = this.#bytes.length - envelopeEnd.length - this.#end - 1 - partsBytes;
    let end = Math.min(to, from + this.#starts.length - this.#itemCount);
    while (end > from && records.endOf(end - 1) - start > room) end--;
    this.isFull = end < to;
    if (end <= from) return 0;
    if (!hasParts) {
      this.#separate();
      const partsAt = this.#end;
      this.#end += source.copy(this.#bytes, partsAt, partsStart, partsEnd);
      this.#shared.push({ start: partsAt, end: this.#end });
      this.#isInForm2 ||= this.#bytes.subarray(partsAt, this.#end).includes(form2Mark);
    }
    this.#separate();
    const shift = this.#end - start;
    for (let i = from; i < end; i++) this.#noteItem(records.startOf(i) + shift, records.endOf(i) + shift, 1);
    this.#end += source.copy(this.#bytes, this.#end, start, records.endOf(end - 1));
    assert(this.#end + envelopeEnd.length <= this.#bytes.length, 'a batch keeps room for its end');
    this.recordCount += end - from;
    return end - from;
  }

  /** Gives up the next `count` numbers. False: the batch is full. */
  addVoid(reason: VoidRun['void'], count: number): boolean {
    assert(count >= 1, 'a void run gives up numbers');
    const json = JSON.stringify({ void: reason, count } satisfies VoidRun);
    this.isFull =
      this.#itemCount === this.#starts.length ||
      this.#end + 1 + json.length + envelopeEnd.length > this.#bytes.length;
    if (this.isFull) return false;
    this.#separate();
    this.voided.push({ firstSeq: this.nextSeq, count, reason });
    this.#noteItem(this.#end, this.#end + json.length, count);
    this.#end += this.#bytes.write(json, this.#end);
    return true;
  }

  /** The whole JSON of the record of that number; null if the batch does not contain it. */
  recordText(seq: number): string | null {
    const index = this.#seqs.subarray(0, this.#itemCount).indexOf(seq);
    if (index < 0 || this.voided.some(({ firstSeq }) => firstSeq === seq)) return null;
    const start = this.#starts[index] ?? 0;
    const text = this.#bytes.toString('utf8', start, this.#ends[index]);
    const item: SpooledRecord | RecordRow = JSON.parse(text);
    if (!isRecordRow(item)) return text;
    const shared = must(
      this.#shared.findLast((parts) => parts.start < start),
      'shared parts precede their rows',
    );
    return JSON.stringify(
      wholeRecord(item, JSON.parse(this.#bytes.toString('utf8', shared.start, shared.end))),
    );
  }

  /**
   * The whole batch, not copied: the bytes change with the next `begin`. An abandoned call may still be
   * sending them; then use another builder for the next batch.
   */
  body({ sidecarId, connectionId }: ShippingConnection): Uint8Array {
    assert(this.#itemCount > 0 || this.end !== null, 'a batch has records, or ends its epoch');
    const envelope: AttestationBatch = {
      sidecar_id: sidecarId,
      connection_id: connectionId,
      epoch: this.epoch,
      first_seq: this.firstSeq,
      ...(this.#isInForm2 ? { form: 2 } : {}),
      ...(this.end === null ? {} : { end: this.end }),
      // Last: the records stand between its brackets.
      records: [],
    };
    const head = JSON.stringify(envelope).slice(0, -envelopeEnd.length);
    const start = itemsAt - Buffer.byteLength(head);
    assert(start >= 0, 'an envelope has bounded fields');
    this.#bytes.write(head, start);
    const end = this.#end + this.#bytes.write(envelopeEnd, this.#end);
    return this.#bytes.subarray(start, end);
  }

  /**
   * Consecutive frames often share the same parts, and so do the pieces of a frame cut at the end of a step.
   * The batch then contains the parts once.
   */
  #endsWithParts(source: Buffer, partsStart: number, partsEnd: number): boolean {
    const last = this.#shared.at(-1);
    if (last === undefined || last.end - last.start !== partsEnd - partsStart) return false;
    return source.compare(this.#bytes, last.start, last.end, partsStart, partsEnd) === 0;
  }

  /** Writes a comma unless the next item is the first. */
  #separate(): void {
    if (this.#end > itemsAt) this.#bytes[this.#end++] = comma;
  }

  /** Notes an item for the next `count` numbers. */
  #noteItem(start: number, end: number, count: number): void {
    this.#starts[this.#itemCount] = start;
    this.#ends[this.#itemCount] = end;
    this.#seqs[this.#itemCount] = this.nextSeq;
    this.#itemCount += 1;
    this.nextSeq += count;
  }
}
