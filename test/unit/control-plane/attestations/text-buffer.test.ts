import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { textBuffer } from '../../../../control-plane/attestations/text-buffer.ts';
import { grapheme } from '../../../support/base/arbitrary-text.ts';

describe('textBuffer', () => {
  it('joins any texts as UTF-8, however often it has to grow', () => {
    const texts = fc.array(fc.string({ unit: grapheme, maxLength: 40 }), { maxLength: 40 });
    fc.assert(
      fc.property(texts, fc.integer({ min: 1, max: 64 }), (added, expectedBytes) => {
        const buffer = textBuffer(expectedBytes);
        for (const text of added) buffer.add(text);
        expect(buffer.take().toString('utf8')).toBe(added.join(''));
      }),
    );
  });
});
