import { describe, expect, it } from 'vitest';
import {
  damaged,
  findFrame,
  frameBytesMax,
  frameEnd,
  frameHeaderBytes,
  frameSeq,
  incomplete,
  parseSegmentName,
  segmentName,
  writeFrame,
} from '../../../sidecar/attest/spool-segment.ts';

const json = '{"id":"att_1","pointer":"/äöü€😀"}';

function twoFrames() {
  const buffer = Buffer.alloc(frameBytesMax * 2);
  const first = writeFrame(buffer, 0, 7, json);
  const end = writeFrame(buffer, first, 8, json);
  return { buffer, first, end };
}

describe('spool frame', () => {
  it('is read as it was written', () => {
    const { buffer, first, end } = twoFrames();
    expect(frameEnd(buffer, 0, end)).toBe(first);
    expect(frameSeq(buffer, 0)).toBe(7);
    expect(buffer.toString('utf8', frameHeaderBytes, first)).toBe(json);
    expect(frameSeq(buffer, first)).toBe(8);
  });

  it('holds numbers beyond 32 bits', () => {
    const buffer = Buffer.alloc(frameBytesMax);
    writeFrame(buffer, 0, 2 ** 40 + 5, json);
    expect(frameSeq(buffer, 0)).toBe(2 ** 40 + 5);
  });

  it('has the documented bytes', () => {
    const buffer = Buffer.alloc(frameBytesMax);
    const end = writeFrame(buffer, 0, 1, '{}');
    // Written down, checksum and all: with another format a new build would give up what an older one has
    // spooled.
    expect(buffer.toString('hex', 0, end)).toBe('a04129cd' + '02000000' + '0100000000000000' + '7b7d');
  });

  it('is incomplete wherever the bytes end before it does', () => {
    const { buffer, first } = twoFrames();
    for (let end = 0; end < first; end++) expect(frameEnd(buffer, 0, end), `cut at ${end}`).toBe(incomplete);
  });

  it('is never whole with a bit changed', () => {
    const { buffer, first } = twoFrames();
    for (let bit = 0; bit < first * 8; bit++) {
      buffer[bit >> 3] = (buffer[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      expect(frameEnd(buffer, 0, first), `bit ${bit}`).toBeLessThan(0);
      buffer[bit >> 3] = (buffer[bit >> 3] ?? 0) ^ (1 << (bit & 7));
    }
    expect(frameEnd(buffer, 0, first)).toBe(first);
  });

  it('is not seen in zeroes', () => {
    expect(frameEnd(Buffer.alloc(100), 0, 100)).toBe(damaged);
  });
});

describe('findFrame', () => {
  it('finds the next frame behind damaged bytes', () => {
    const { buffer, first, end } = twoFrames();
    buffer[first - 1] = 0;
    expect(findFrame(buffer, 1, end, 6)).toBe(first);
  });

  it('takes no frame for later that is not', () => {
    const { buffer, end } = twoFrames();
    expect(findFrame(buffer, 1, end, 8)).toBe(end);
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
