import { crc32 } from 'node:zlib';
import { assert } from '../../shared/errors/assert.ts';
import { renderRecordRow } from '../../shared/wire/sync/spooled-record.ts';
import { attestLimits } from './limits.ts';

/**
 * One file of the spool: consecutive frames, nothing before or between them. A killed writer leaves zeros
 * behind the last one (epoch-writer.ts). Integers are little-endian. Spooled records were promised, so a
 * build with another layout must still read that of the version before; a start on an older one is refused
 * (isEarlierForm).
 *
 *     0         4         8                   16                16 + length
 *     +---------+---------+-------------------+-----------------+
 *     | check   | length  | seq               | payload         |
 *     +---------+---------+-------------------+-----------------+
 *       u32       u32       u64
 *               \______________ covered by the checksum _________/
 *
 * Each frame is a block, with the records of one event-loop turn, or some of them. The highest bit of
 * `length` is set and no part of the number. `seq` is the number of the first record, `check` is the CRC-32
 * of zlib, which Node.js computes natively, and the payload is
 *
 *     16        20
 *     +---------+--------------------------+---------------+------------------------------+
 *     | count   | record , record , ...    | shared parts  | end of each record           |
 *     +---------+--------------------------+---------------+------------------------------+
 *       u32       JSON in UTF-8, separated   JSON, or        u32, counted from byte 20
 *                 as in an array             nothing
 *
 * so that the records of a block can be sent with one copy, and each can be located. Values that many records
 * share are in the shared parts once, and the records refer to them (SharedParts, RecordRow in
 * shared/wire/sync/sync.ts); the second bit of `length` marks their presence. Damage costs a whole block, so
 * its size is bounded (attestLimits.spoolBlockBytes).
 *
 * Every frame has its number, although it could be counted. If a frame is damaged, the next good one shows
 * how many records are lost, and its number is further proof that it is a frame and not text that looks like
 * one.
 */
const frameHeaderBytes = 16;
/** Where the first record of a block begins. */
const blockRecordsAt = frameHeaderBytes + 4;
const endBytes = 4;
/** A frame ends with a u32 that is not 0. */
export const frameZerosMax = endBytes - 1;
const blockBit = 0x8000_0000;
const sharingBit = 0x4000_0000;
const u32 = 2 ** 32;

/** A character of JSON takes at most three bytes of UTF-8 for each UTF-16 unit. */
const recordBytesMax = attestLimits.spoolRecordCharsMax * 3;

const chainsBegin = '{"chains":[';
const outcomesBegin = '],"outcomes":[';
const partsEnd = ']}';
/** Bytes of the shared parts around the parts themselves. */
const partsFrameBytes = chainsBegin.length + outcomesBegin.length + partsEnd.length;

/** A block takes one more record as long as it is shorter than `spoolBlockBytes`. */
export const frameBytesMax =
  attestLimits.spoolBlockBytes +
  recordBytesMax +
  partsFrameBytes +
  endBytes * attestLimits.spoolBlockRecordsMax;

/**
 * The JSON of a part that many records share: a ChainPart or an OutcomePart. It belongs to one writer, which
 * notes its place in the current block here. Text, not bytes: tens of thousands are kept, each made in
 * another turn, and a short Buffer of its own would keep 8 KiB of Node's pool.
 */
export class SharedPart {
  readonly json: string;
  readonly byteLength: number;
  /** Written by BlockWriter alone. 0: in no block yet. */
  block = 0;
  index = 0;

  constructor(json: string) {
    this.json = json;
    this.byteLength = Buffer.byteLength(json);
  }
}

/** A row in three parts. */
export interface RecordParts {
  /** `renderRowHead`: ASCII. */
  readonly head: string;
  readonly chain: SharedPart;
  readonly outcome: SharedPart;
}

/**
 * Gathers records as blocks in memory. Write as many of `bytes` as `seal()` returns to the file, then
 * `clear()`.
 */
export class BlockWriter {
  readonly bytes: Buffer;
  /** End of the last written record, or of the last sealed block. */
  #end = 0;
  /**
   * Unwritten rows of the block, each with the comma before it: ASCII. Writing all with one call is cheaper
   * than a call for each (bench row `micro`: rows of a turn, one write).
   */
  #rows = '';
  /** Blocks begun so far; the last one is being filled unless `#count` is 0. */
  #block = 0;
  #start = 0;
  #firstSeq = 0;
  #count = 0;
  readonly #ends = new Uint32Array(attestLimits.spoolBlockRecordsMax);
  readonly #chains: SharedPart[] = [];
  readonly #outcomes: SharedPart[] = [];
  /** Bytes of these parts, with a comma each. */
  #partsBytes = 0;
  /** Of all these parts. */
  #isAscii = true;

  constructor(capacityBytes: number) {
    this.bytes = Buffer.allocUnsafe(capacityBytes);
  }

  /**
   * Of what was added so far; a block that is not sealed grows by the ends of its records, and by
   * `partsFrameBytes`.
   */
  get length(): number {
    return this.#end + this.#rows.length + this.#partsBytes;
  }

  /** Room for a record of any legal length. */
  get hasRoom(): boolean {
    return this.length + frameBytesMax <= this.bytes.length;
  }

  /** Adds a record. `hasRoom`, and `seq` follows the one before. */
  add(seq: number, json: string): void {
    this.#beginRecord(seq);
    this.#writeRows();
    if (this.#count > 0) this.bytes[this.#end++] = comma;
    this.#end += this.bytes.write(json, this.#end);
    this.#endRecord();
  }

  /** The same for a record in parts. */
  addParts(seq: number, { head, chain, outcome }: RecordParts): void {
    this.#beginRecord(seq);
    const chainAt = this.#placeOf(chain, this.#chains);
    const outcomeAt = this.#placeOf(outcome, this.#outcomes);
    if (this.#count > 0) this.#rows += ',';
    this.#rows += renderRecordRow(head, chainAt, outcomeAt);
    this.#endRecord();
  }

  #placeOf(part: SharedPart, parts: SharedPart[]): number {
    if (part.block !== this.#block) {
      part.block = this.#block;
      part.index = parts.length;
      parts.push(part);
      this.#partsBytes += part.byteLength + 1;
      this.#isAscii &&= part.byteLength === part.json.length;
    }
    return part.index;
  }

  #beginRecord(seq: number): void {
    if (
      this.#count === attestLimits.spoolBlockRecordsMax ||
      this.length - this.#start >= attestLimits.spoolBlockBytes
    )
      this.seal();
    if (this.#count === 0) this.#begin(seq);
  }

  #endRecord(): void {
    this.#ends[this.#count++] = this.#end + this.#rows.length - this.#start - blockRecordsAt;
  }

  #writeRows(): void {
    if (this.#rows === '') return;
    this.#end += this.bytes.write(this.#rows, this.#end, 'latin1');
    this.#rows = '';
  }

  /** Completes the last block. Returns how many bytes there are. */
  seal(): number {
    if (this.#count === 0) return this.#end;
    const { bytes } = this;
    const start = this.#start;
    const bits = blockBit + (this.#partsBytes > 0 ? sharingBit : 0);
    let end = this.#writeParts();
    for (let i = 0; i < this.#count; i++) end = bytes.writeUInt32LE(this.#ends[i] ?? 0, end);
    assert(end - start <= frameBytesMax, 'a reader takes a block of this length');
    bytes.writeUInt32LE(bits + end - start - frameHeaderBytes, start + 4);
    bytes.writeUInt32LE(this.#firstSeq % u32, start + 8);
    bytes.writeUInt32LE(Math.floor(this.#firstSeq / u32), start + 12);
    bytes.writeUInt32LE(this.#count, start + 16);
    bytes.writeUInt32LE(crc32(bytes.subarray(start + 4, end)), start);
    this.#end = end;
    this.#count = 0;
    return end;
  }

  clear(): void {
    this.#end = 0;
    this.#rows = '';
    this.#count = 0;
    this.#forgetParts();
  }

  /** After the rows, with one call for both unless a part has other characters. Returns where they end. */
  #writeParts(): number {
    if (this.#partsBytes > 0) {
      const parts = chainsBegin + listOf(this.#chains) + outcomesBegin + listOf(this.#outcomes) + partsEnd;
      if (this.#isAscii) this.#rows += parts;
      else {
        this.#writeRows();
        this.#end += this.bytes.write(parts, this.#end);
      }
      this.#forgetParts();
    }
    this.#writeRows();
    return this.#end;
  }

  #forgetParts(): void {
    this.#chains.length = 0;
    this.#outcomes.length = 0;
    this.#partsBytes = 0;
    this.#isAscii = true;
  }

  #begin(seq: number): void {
    this.#block += 1;
    this.#start = this.#end;
    this.#firstSeq = seq;
    this.#end += blockRecordsAt;
  }
}

const comma = 0x2c;

/** Separated by commas. */
function listOf(parts: readonly SharedPart[]): string {
  let list = '';
  for (const { json } of parts) list += list === '' ? json : `,${json}`;
  return list;
}

/** The bytes end before the frame does; the file may hold the rest. */
export const incomplete = -1;
/** No frame begins here. */
export const damaged = -2;

/**
 * The offset after the intact frame at `start`, or `incomplete`, or `damaged`. Reads nothing from `end` on.
 * Few places within a block have the bits of a length, so a search for the next frame costs few checksums.
 */
export function frameEnd(buffer: Buffer, start: number, end: number): number {
  if (start + frameHeaderBytes > end) return incomplete;
  const length = buffer.readUInt32LE(start + 4);
  const payloadBytes = length % sharingBit;
  if (length < blockBit) return damaged;
  if (payloadBytes === 0 || payloadBytes > frameBytesMax - frameHeaderBytes) return damaged;
  const frameEndsAt = start + frameHeaderBytes + payloadBytes;
  if (frameEndsAt > end) return incomplete;
  const check = crc32(buffer.subarray(start + 4, frameEndsAt));
  return buffer.readUInt32LE(start) === check ? frameEndsAt : damaged;
}

/** Bytes at the beginning of a segment that show its form. */
export const formBytes = 4_096;

/**
 * Whether a segment with this beginning has a format that this version does not read: a frame for each record
 * (0.1.0), or rows with member names (builds before 0.2.0). The record count of a block is never large enough
 * to read as the beginning of an object.
 */
export function isEarlierForm(head: Buffer, firstSeq: number): boolean {
  if (head.length < blockRecordsAt || frameSeq(head, 0) !== firstSeq) return false;
  const isSharing = head.readUInt32LE(4) >= blockBit + sharingBit;
  // Inside a string, each of these quotes would be escaped.
  return (
    head.toString('latin1', frameHeaderBytes, blockRecordsAt).startsWith('{"') ||
    (isSharing && head.includes('"chain":'))
  );
}

/** The records of an intact frame. */
export interface FrameRecords {
  readonly firstSeq: number;
  readonly count: number;
  /** Of the record with this index, from 0. Between two records of a frame there is one byte, a comma. */
  startOf(index: number): number;
  endOf(index: number): number;
  /** The shared parts as JSON; empty if there are none. */
  readonly partsStart: number;
  readonly partsEnd: number;
}

/** `end`: the result of `frameEnd`. */
export function frameRecords(buffer: Buffer, start: number, end: number): FrameRecords {
  const firstSeq = frameSeq(buffer, start);
  const count = buffer.readUInt32LE(start + frameHeaderBytes);
  const endsAt = end - count * endBytes;
  const recordsAt = start + blockRecordsAt;
  const endOf = (index: number) => recordsAt + buffer.readUInt32LE(endsAt + index * endBytes);
  const startOf = (index: number) => (index === 0 ? recordsAt : endOf(index - 1) + 1);
  return { firstSeq, count, startOf, endOf, partsStart: endOf(count - 1), partsEnd: endsAt };
}

const frameSeq = (buffer: Buffer, start: number): number =>
  buffer.readUInt32LE(start + 8) + buffer.readUInt32LE(start + 12) * u32;

/** The number of the last record of an intact frame. */
export const lastSeqOf = (buffer: Buffer, start: number): number =>
  frameSeq(buffer, start) + buffer.readUInt32LE(start + frameHeaderBytes) - 1;

/**
 * Start of the next intact frame, from `start` on, with a record later than `afterSeq`. Searches only before
 * `placesEnd`, and returns that if there is none.
 */
export function findFrame(
  buffer: Buffer,
  start: number,
  end: number,
  afterSeq: number,
  placesEnd = end,
): number {
  for (let at = start; at < placesEnd; at++) {
    if (frameEnd(buffer, at, end) > 0 && lastSeqOf(buffer, at) > afterSeq) return at;
  }
  return placesEnd;
}

/**
 * Segments are named by the number of their first record, so that names sort in order and gaps show.
 */
export function segmentName(firstSeq: number): string {
  const name = `${String(firstSeq).padStart(16, '0')}.seg`;
  assert(parseSegmentName(name) === firstSeq, 'a segment is found by its name again');
  return name;
}

/** The number of the first record of that segment; null if it is not a segment's name. */
export function parseSegmentName(name: string): number | null {
  const firstSeq = /^\d{16}\.seg$/.test(name) ? Number(name.slice(0, 16)) : 0;
  return Number.isSafeInteger(firstSeq) && firstSeq > 0 ? firstSeq : null;
}
