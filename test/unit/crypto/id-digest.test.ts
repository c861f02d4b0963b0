import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { digestCount, digestWordsOf, idDigest, readDigests } from '../../../shared/crypto/id-digest.ts';
import { codePoint } from '../../support/base/arbitrary-text.ts';

const id = 'pass_00000000000000000000000001';

describe('the digest of an id', () => {
  it('is base64url of the first 16 bytes of SHA-256 of its text', () => {
    const bytes = createHash('sha256').update(id).digest().subarray(0, 16);
    expect(idDigest(id)).toBe(bytes.toString('base64url'));
    expect(idDigest(id)).toHaveLength(22);
  });

  it('has the same words, read from text or made of the id, wherever it stands among others', () => {
    const other = 'iss_00000000000000000000000001';
    const both = Buffer.concat([idDigest(id), idDigest(other)].map((each) => Buffer.from(each, 'base64url')));
    expect(digestWordsOf(id, other)).toEqual(readDigests(both.toString('base64url')));
    expect(digestCount(both.toString('base64url'))).toBe(2);
    expect(digestCount('')).toBe(0);
    expect(digestWordsOf(id, other).subarray(4)).toEqual(digestWordsOf(other));
    expect(readDigests('')).toHaveLength(0);
  });

  it('has the words of its bytes, whatever the text', () => {
    fc.assert(
      fc.property(fc.string({ unit: codePoint }), (text) => {
        expect(digestWordsOf(text)).toEqual(readDigests(idDigest(text)));
      }),
    );
  });

  it.each([
    ['half a digest', 'AAAAAAAAAAA'],
    ['a byte too much', 'AAAAAAAAAAAAAAAAAAAAAAA'],
    ['a character of another alphabet', `${'A'.repeat(21)}+`],
    ['set bits after the last byte', `${'A'.repeat(21)}B`],
  ])('is not read from %s', (_what, text) => {
    expect(() => readDigests(text)).toThrow('16 bytes each');
  });
});
