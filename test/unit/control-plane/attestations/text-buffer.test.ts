import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { textBuffer } from '../../../../control-plane/attestations/text-buffer.ts';
import { grapheme } from '../../../support/arbitrary-text.ts';

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

  it('takes a text that is larger than all it has at once', () => {
    const buffer = textBuffer(4);
    buffer.add('€'.repeat(1_000));
    expect(buffer.take()).toEqual(Buffer.from('€'.repeat(1_000)));
  });

  it('is empty where nothing was added', () => {
    expect(textBuffer(16).take()).toHaveLength(0);
  });
});
