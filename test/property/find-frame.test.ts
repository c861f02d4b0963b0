import fc, { type Arbitrary } from 'fast-check';
import { expect, it } from 'vitest';
import {
  BlockWriter,
  findFrame,
  frameEnd,
  lastSeqOf,
  SharedPart,
} from '../../sidecar/attest/spool-segment.ts';
import { runs } from '../support/runs.ts';
import { earlierSegment } from '../vectors/earlier-spool.ts';

const frameHeaderBytes = 16;

/** The checksum of every place. */
function plainFindFrame(buffer: Buffer, start: number, end: number, afterSeq: number): number {
  for (let at = start; at + frameHeaderBytes < end; at++) {
    if (frameEnd(buffer, at, end) > 0 && lastSeqOf(buffer, at) > afterSeq) return at;
  }
  return end;
}

const seqs = fc.oneof(fc.integer({ min: 1, max: 40 }), fc.constantFrom(2 ** 32 - 1, 2 ** 40));

/** Whole records and ones that share parts, some blocks of many. */
const blocks: Arbitrary<Buffer> = fc
  .tuple(seqs, fc.array(fc.tuple(fc.boolean(), fc.nat(60)), { minLength: 1, maxLength: 40 }))
  .map(([firstSeq, records]) => {
    const writer = new BlockWriter(1024 * 1024);
    const [chain, outcome] = [new SharedPart('{"chain_id":"é"}'), new SharedPart('{}')];
    for (const [index, [isShort, chars]] of records.entries()) {
      const text = 'x'.repeat(chars);
      if (isShort) writer.addParts(firstSeq + index, { head: `"${text}"`, chain, outcome });
      else writer.add(firstSeq + index, `{"id":"${text}"}`);
    }
    return Buffer.from(writer.bytes.subarray(0, writer.seal()));
  });

/** What a segment may hold: frames of all kinds and what is none. */
const segments: Arbitrary<Buffer> = fc
  .array(
    fc.oneof(
      { weight: 4, arbitrary: blocks },
      fc.constant(Buffer.from(earlierSegment)),
      fc.uint8Array({ maxLength: 60 }).map((bytes) => Buffer.from(bytes)),
      fc.nat(60).map((length) => Buffer.alloc(length)),
    ),
    { minLength: 1, maxLength: 5 },
  )
  .map((parts) => Buffer.concat(parts));

const damage = fc.array(fc.tuple(fc.nat(), fc.nat(255)), { maxLength: 8 });

it('a search for the next frame finds what the checksum of every place would', () => {
  fc.assert(
    fc.property(
      segments,
      damage,
      fc.nat(),
      fc.nat(),
      fc.oneof(seqs, fc.constant(0)),
      (bytes, changes, from, steps, afterSeq) => {
        for (const [place, value] of changes) bytes[place % (bytes.length || 1)] = value;
        const start = from % (bytes.length + 1);
        const found = plainFindFrame(bytes, start, bytes.length, afterSeq);
        expect(findFrame(bytes, start, bytes.length, afterSeq)).toBe(found);
        const placesEnd = start + (steps % (bytes.length - start + 1));
        expect(findFrame(bytes, start, bytes.length, afterSeq, placesEnd)).toBe(Math.min(found, placesEnd));
      },
    ),
    { numRuns: runs({ short: 300, long: 20_000 }) },
  );
});
