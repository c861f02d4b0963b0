import { describe, expect, it } from 'vitest';
import { must } from '../../../shared/errors/assert.ts';
import { attestLimits } from '../../../sidecar/attest/limits.ts';
import {
  BlockWriter,
  damaged,
  findFrame,
  frameBytesMax,
  frameEnd,
  frameRecords,
  incomplete,
  isEarlierForm,
  lastSeqOf,
  parseSegmentName,
  SharedPart,
  segmentName,
} from '../../../sidecar/attest/spool-segment.ts';
import { earlierSegment, earlierSharingSegment } from '../../vectors/earlier-spool.ts';

const texts = ['{"id":"att_1","pointer":"/äöü€😀"}', '{"id":"att_2"}', '{}'];

/** The records as blocks; each list is a block. */
function blocksOf(...blocks: readonly (readonly string[])[]): Buffer {
  const writer = new BlockWriter(frameBytesMax * 2);
  let seq = 7;
  let end = 0;
  for (const records of blocks) {
    for (const text of records) writer.add(seq++, text);
    end = writer.seal();
  }
  return writer.bytes.subarray(0, end);
}

function textsOf(frames: Buffer): string[] {
  const found: string[] = [];
  for (let start = 0; start < frames.length; ) {
    const end = frameEnd(frames, start, frames.length);
    expect(end, `a frame begins at ${start}`).toBeGreaterThan(start);
    const records = frameRecords(frames, start, end);
    for (let i = 0; i < records.count; i++)
      found.push(frames.toString('utf8', records.startOf(i), records.endOf(i)));
    start = end;
  }
  return found;
}

describe('a block of records', () => {
  it('is read as written', () => {
    const bytes = blocksOf(texts);
    expect(frameEnd(bytes, 0, bytes.length)).toBe(bytes.length);
    expect(frameRecords(bytes, 0, bytes.length)).toMatchObject({ firstSeq: 7, count: 3 });
    expect(lastSeqOf(bytes, 0)).toBe(9);
    expect(textsOf(bytes)).toEqual(texts);
  });

  it('has the documented bytes', () => {
    // Written down, checksum and all: with another format a new build would give up what an older one has
    // spooled.
    expect(blocksOf(['{}', '{"a":1}']).toString('hex')).toBe(
      '6d1f6d7a' +
        '16000080' +
        '0700000000000000' +
        '02000000' +
        '7b7d2c7b2261223a317d' +
        '02000000' +
        '0a000000',
    );
  });

  it('holds numbers beyond 32 bits', () => {
    const writer = new BlockWriter(frameBytesMax);
    writer.add(2 ** 40 + 5, '{}');
    writer.seal();
    expect(lastSeqOf(writer.bytes, 0)).toBe(2 ** 40 + 5);
  });

  it('is incomplete if the bytes end before it does', () => {
    const bytes = blocksOf(texts);
    for (let end = 0; end < bytes.length; end++)
      expect(frameEnd(bytes, 0, end), `cut at ${end}`).toBe(incomplete);
  });

  it('is damaged by any changed bit', () => {
    const bytes = blocksOf(texts);
    for (let bit = 0; bit < bytes.length * 8; bit++) {
      bytes[bit >> 3] = (bytes[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      expect(frameEnd(bytes, 0, bytes.length), `bit ${bit}`).toBeLessThan(0);
      bytes[bit >> 3] = (bytes[bit >> 3] ?? 0) ^ (1 << (bit & 7));
    }
    expect(frameEnd(bytes, 0, bytes.length)).toBe(bytes.length);
  });

  it('has room for any record while `hasRoom`', () => {
    const largest = `"${'€'.repeat(attestLimits.spoolRecordCharsMax - 2)}"`;
    for (const small of [0, 1, attestLimits.spoolBlockRecordsMax - 1, attestLimits.spoolBlockRecordsMax]) {
      const writer = new BlockWriter(frameBytesMax * 2 + 300);
      for (let seq = 1; seq <= small; seq++) writer.add(seq, '{}');
      let seq = small;
      while (writer.hasRoom) writer.add(++seq, largest);
      const bytes = writer.bytes.subarray(0, writer.seal());
      expect(textsOf(bytes)).toHaveLength(seq);
      expect(textsOf(bytes).at(-1)).toBe(largest);
    }
  });
});

describe('a block with shared parts', () => {
  const passports = [1, 2, 3].map((n) => new SharedPart(`{"chain_id":"pass_${n}"}`));
  const kinds = [1, 2].map((n) => new SharedPart(`{"gate_id":"gate_${n}"}`));
  const part = (parts: readonly SharedPart[], index: number) => must(parts[index], 'there is such a part');
  const parts = (id: string, passport: number, kind: number) => ({
    head: `"${id}"`,
    chain: part(passports, passport),
    outcome: part(kinds, kind),
  });
  const partsOf = (bytes: Buffer, start = 0) => {
    const { partsStart, partsEnd } = frameRecords(bytes, start, frameEnd(bytes, start, bytes.length));
    return bytes.toString('utf8', partsStart, partsEnd);
  };

  it('has the documented bytes', () => {
    const writer = new BlockWriter(frameBytesMax);
    writer.addParts(7, {
      head: '"id",1',
      chain: new SharedPart('{"c":1}'),
      outcome: new SharedPart('{"o":2}'),
    });
    expect(writer.bytes.toString('latin1', 16 + 4, writer.seal() - 4)).toBe(
      '["id",1,0,0]{"chains":[{"c":1}],"outcomes":[{"o":2}]}',
    );
    expect(writer.bytes.toString('hex', 4, 20)).toBe('3d0000c0' + '0700000000000000' + '01000000');
  });

  it('holds each shared part once, and whole records beside rows', () => {
    const writer = new BlockWriter(frameBytesMax * 2);
    writer.addParts(1, parts('a', 2, 0));
    writer.add(2, '{"id":"b"}');
    writer.addParts(3, parts('c', 0, 0));
    writer.addParts(4, parts('d', 2, 1));
    const bytes = writer.bytes.subarray(0, writer.seal());
    expect(textsOf(bytes)).toEqual(['["a",0,0]', '{"id":"b"}', '["c",1,0]', '["d",0,1]']);
    expect(JSON.parse(partsOf(bytes))).toEqual({
      chains: [{ chain_id: 'pass_3' }, { chain_id: 'pass_1' }],
      outcomes: [{ gate_id: 'gate_1' }, { gate_id: 'gate_2' }],
    });
  });

  it.each(['{"c":"\u00e9"}', '{"c":"\u20ac"}', '{"c":"\ud83d\ude00"}'])('has %s in UTF-8', (json) => {
    const writer = new BlockWriter(frameBytesMax);
    writer.addParts(1, { head: '"id"', chain: new SharedPart(json), outcome: new SharedPart('{}') });
    const bytes = writer.bytes.subarray(0, writer.seal());
    expect(textsOf(bytes)).toEqual(['["id",0,0]']);
    expect(partsOf(bytes)).toBe(`{"chains":[${json}],"outcomes":[{}]}`);
  });

  it('repeats the parts of the block before it, even if that was never sealed', () => {
    const writer = new BlockWriter(frameBytesMax * 2);
    writer.addParts(1, parts('a', 0, 0));
    writer.seal();
    writer.addParts(2, parts('b', 0, 1));
    const bytes = writer.bytes.subarray(0, writer.seal());
    const second = frameEnd(bytes, 0, bytes.length);
    expect(textsOf(bytes).at(-1)).toBe('["b",0,0]');
    expect(JSON.parse(partsOf(bytes, second))).toEqual({
      chains: [{ chain_id: 'pass_1' }],
      outcomes: [{ gate_id: 'gate_2' }],
    });
    writer.clear();
    writer.addParts(2, parts('b', 1, 1));
    writer.clear();
    writer.addParts(2, parts('c', 1, 0));
    const again = writer.bytes.subarray(0, writer.seal());
    expect(textsOf(again)).toEqual(['["c",0,0]']);
    expect(JSON.parse(partsOf(again))).toEqual({
      chains: [{ chain_id: 'pass_2' }],
      outcomes: [{ gate_id: 'gate_1' }],
    });
  });

  it('stays within its bound with parts of any size, each in one record only', () => {
    for (const chars of [1_000, 20_000, attestLimits.spoolRecordCharsMax]) {
      const writer = new BlockWriter(frameBytesMax * 4);
      let seq = 0;
      while (writer.hasRoom) {
        const [chain, outcome] = [new SharedPart('{}'), new SharedPart(`"${'€'.repeat(chars - 20)}"`)];
        writer.addParts(++seq, { head: '"id",1', chain, outcome });
      }
      const bytes = writer.bytes.subarray(0, writer.seal());
      let blocks = 0;
      for (let start = 0; start < bytes.length; blocks++) {
        const end = frameEnd(bytes, start, bytes.length);
        expect(end - start).toBeLessThanOrEqual(frameBytesMax);
        start = end;
      }
      expect(textsOf(bytes)).toHaveLength(seq);
      expect(blocks).toBeGreaterThan(1);
    }
  });
});

describe('isEarlierForm', () => {
  const earlier = Buffer.from(earlierSegment);

  it('recognises a frame for each record, and rows with member names', () => {
    expect(isEarlierForm(earlier, 1)).toBe(true);
    expect(isEarlierForm(Buffer.from(earlierSharingSegment), 1)).toBe(true);
    for (const end of [0, 16, 19]) expect(isEarlierForm(earlier.subarray(0, end), 1), `${end}`).toBe(false);
  });

  it('does not match a block, whatever its records and header bits', () => {
    const writer = new BlockWriter(frameBytesMax * 2);
    const [chain, outcome] = [new SharedPart('{"chain_id":"c"}'), new SharedPart('{"gate_id":"g"}')];
    writer.add(7, JSON.stringify({ id: 'att_1', pointer: '/{"chain":0,"outcome":0}' }));
    writer.addParts(8, { head: '"id",1', chain, outcome });
    const sharing = Buffer.from(writer.bytes.subarray(0, writer.seal()));
    for (const block of [sharing, blocksOf(texts)]) {
      expect(isEarlierForm(block, 7)).toBe(false);
      for (let bit = 0; bit < 20 * 8; bit++) {
        const bytes = Buffer.from(block);
        bytes[bit >> 3] = (bytes[bit >> 3] ?? 0) ^ (1 << (bit & 7));
        expect(isEarlierForm(bytes, 7), `bit ${bit}`).toBe(false);
      }
    }
  });
});

describe('findFrame', () => {
  it('finds the next frame after damaged bytes', () => {
    const bytes = blocksOf(texts, texts);
    const first = frameEnd(bytes, 0, bytes.length);
    bytes[first - 1] = 1;
    expect(findFrame(bytes, 1, bytes.length, 6)).toBe(first);
  });

  it('skips frames without a later record', () => {
    const bytes = blocksOf(texts, texts);
    expect(findFrame(bytes, 0, bytes.length, 8)).toBe(0);
    expect(findFrame(bytes, 0, bytes.length, 9)).toBe(frameEnd(bytes, 0, bytes.length));
    expect(findFrame(bytes, 1, bytes.length, 12)).toBe(bytes.length);
  });

  it('finds none in zeros', () => {
    expect(frameEnd(Buffer.alloc(100), 0, 100)).toBe(damaged);
    expect(findFrame(Buffer.alloc(100), 0, 100, 0)).toBe(100);
  });
});

describe('segment name', () => {
  it('sorts as its numbers do, and reads back', () => {
    const names = [1, 9, 10, 11_842, 10 ** 15].map(segmentName);
    expect(names.toSorted()).toEqual(names);
    expect(names.map(parseSegmentName)).toEqual([1, 9, 10, 11_842, 10 ** 15]);
  });

  it.each(['', 'x.seg', '0000000000000000.seg', '0000000000000001.tmp', '1.seg'])('is not %j', (name) => {
    expect(parseSegmentName(name)).toBeNull();
  });
});
