import { crc32c } from './crc32c.ts';
import { attestLimits } from './limits.ts';

/**
 * One file of the spool: frames one after the other, nothing before, between or behind them. Integers are
 * little-endian. A build with another layout must still read this one: what an older build has spooled was
 * promised.
 *
 *     0         4         8                   16                16 + length
 *     +---------+---------+-------------------+-----------------+
 *     | crc32c  | length  | seq               | payload         |
 *     +---------+---------+-------------------+-----------------+
 *       u32       u32       u64                 UTF-8 JSON of one SpooledRecord
 *               \______________ covered by the checksum _________/
 *
 * The sequence number is in every frame, although it could be counted: if a frame is damaged, the next
 * good one shows how many records are lost, and its number is one more proof that it is a frame and not a
 * piece of text that looks like one.
 */
export const frameHeaderBytes = 16;

/** A character of JSON takes at most three bytes of UTF-8 for each UTF-16 unit. */
export const frameBytesMax = frameHeaderBytes + attestLimits.spoolRecordCharsMax * 3;

const u32 = 2 ** 32;

/**
 * Writes one frame at `start`, where at least `frameBytesMax` bytes are free. Returns the offset behind it.
 */
export function writeFrame(buffer: Buffer, start: number, seq: number, json: string): number {
  const payloadBytes = buffer.write(json, start + frameHeaderBytes);
  const end = start + frameHeaderBytes + payloadBytes;
  buffer.writeUInt32LE(payloadBytes, start + 4);
  buffer.writeUInt32LE(seq % u32, start + 8);
  buffer.writeUInt32LE(Math.floor(seq / u32), start + 12);
  buffer.writeUInt32LE(crc32c(buffer, start + 4, end), start);
  return end;
}

/** The bytes end before the frame does: there may be more of it in the file. */
export const incomplete = -1;
/** No frame begins here. */
export const damaged = -2;

/**
 * The offset behind the whole and undamaged frame at `start`, or `incomplete`, or `damaged`. Reads nothing
 * from `end` on.
 */
export function frameEnd(buffer: Buffer, start: number, end: number): number {
  if (start + frameHeaderBytes > end) return incomplete;
  const payloadBytes = buffer.readUInt32LE(start + 4);
  if (payloadBytes === 0 || payloadBytes > frameBytesMax - frameHeaderBytes) return damaged;
  const frameEndsAt = start + frameHeaderBytes + payloadBytes;
  if (frameEndsAt > end) return incomplete;
  return buffer.readUInt32LE(start) === crc32c(buffer, start + 4, frameEndsAt) ? frameEndsAt : damaged;
}

export const frameSeq = (buffer: Buffer, start: number): number =>
  buffer.readUInt32LE(start + 8) + buffer.readUInt32LE(start + 12) * u32;

/**
 * Where the next undamaged frame begins that is later than `afterSeq`, from `start` on; `end` if there is
 * none.
 */
export function findFrame(buffer: Buffer, start: number, end: number, afterSeq: number): number {
  for (let at = start; at + frameHeaderBytes < end; at++) {
    if (frameEnd(buffer, at, end) > 0 && frameSeq(buffer, at) > afterSeq) return at;
  }
  return end;
}

/**
 * Segments are named by the number of their first record, so that their names sort in order and a hole
 * between two shows.
 */
export const segmentName = (firstSeq: number): string => `${String(firstSeq).padStart(16, '0')}.seg`;

/** The number of the first record of that segment; null if it is not a segment's name. */
export function parseSegmentName(name: string): number | null {
  const firstSeq = /^\d{16}\.seg$/.test(name) ? Number(name.slice(0, 16)) : 0;
  return Number.isSafeInteger(firstSeq) && firstSeq > 0 ? firstSeq : null;
}
