import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { LineSplitter } from '../../../clients/node/src/verify/export-lines.ts';

const bytes = (text: string) => Uint8Array.from(Buffer.from(text, 'utf8'));
function split(pieces: readonly Uint8Array[], lineBytesMax = 1_000): (string | null)[] {
  const splitter = new LineSplitter({ lineBytesMax });
  return [...pieces.flatMap((piece) => [...splitter.push(piece)]), ...splitter.end()];
}

describe('LineSplitter', () => {
  it('gives the same lines however the bytes are cut into pieces', () => {
    fc.assert(
      fc.property(
        fc.array(fc.string({ unit: fc.constantFrom('a', 'é', '😀', '\r', ' ') })),
        fc.array(fc.nat(40)),
        (lines, cuts) => {
          const whole = bytes(lines.map((line) => `${line}\n`).join(''));
          const pieces: Uint8Array[] = [];
          let start = 0;
          for (const cut of cuts) {
            pieces.push(whole.subarray(start, start + cut));
            start += cut;
          }
          pieces.push(whole.subarray(start));
          expect(split(pieces)).toEqual(lines);
        },
      ),
    );
  });

  it('gives null for a line that is not UTF-8 or lacks its newline', () => {
    expect(split([bytes('a\n'), Uint8Array.of(0xff, 0x0a), bytes('b\n')])).toEqual(['a', null, 'b']);
    expect(split([bytes('a\nb')])).toEqual(['a', null]);
  });

  it('keeps a byte order mark and a carriage return', () => {
    expect(split([bytes('\ufeffa\r\n')])).toEqual(['\ufeffa\r']);
  });

  it('takes a line of exactly the limit, and answers no more after a longer one', () => {
    expect(split([bytes('aaa\nbbb\n')], 3)).toEqual(['aaa', 'bbb']);
    expect(split([bytes('aaa\nbbbb\nc\n')], 3)).toEqual(['aaa', null]);
    expect(split([bytes('aa'), bytes('aa'), bytes('\nb\n')], 3)).toEqual([null]);
  });

  it('is not disturbed when the caller uses its buffer again', () => {
    const splitter = new LineSplitter({ lineBytesMax: 10 });
    const buffer = bytes('abc');
    expect([...splitter.push(buffer)]).toEqual([]);
    buffer.fill(0x78);
    expect([...splitter.push(bytes('\n'))]).toEqual(['abc']);
  });
});
