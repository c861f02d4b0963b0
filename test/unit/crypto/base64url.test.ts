import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decodeBase64url, encodeBase64url, readBase64url } from '../../../shared/crypto/base64url.ts';
import { limits } from '../../../shared/model/limits.ts';
import { codePoint } from '../../support/base/arbitrary-text.ts';

const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';

describe('base64url', () => {
  it('reproduces RFC 4648 §10, without padding', () => {
    const vectors = [
      ['', ''],
      ['f', 'Zg'],
      ['fo', 'Zm8'],
      ['foo', 'Zm9v'],
      ['foobar', 'Zm9vYmFy'],
    ];
    for (const [text = '', encoded = ''] of vectors) {
      expect(encodeBase64url(Buffer.from(text))).toBe(encoded);
      expect(Buffer.from(decodeBase64url(encoded) ?? []).toString()).toBe(text);
    }
  });

  it('round-trips, also from a view into larger memory', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), fc.nat(20), (bytes, offset) => {
        const larger = new Uint8Array(bytes.length + 40).fill(255);
        larger.set(bytes, offset);
        const view = larger.subarray(offset, offset + bytes.length);
        expect([...(decodeBase64url(encodeBase64url(view)) ?? [])]).toEqual([...bytes]);
      }),
    );
  });

  it('has exactly one text for every byte string: any text it reads is the one it writes', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: fc.constantFrom(...alphabet, '=', '+', '/', ' ', '\n', 'é'), maxLength: 8 }),
        (text) => {
          const bytes = decodeBase64url(text);
          if (bytes !== null) expect(encodeBase64url(bytes)).toBe(text);
        },
      ),
      { numRuns: 500 },
    );
  });

  it.each(['Zg==', 'Zm8=', 'Zh', 'Zm9', 'Z', 'Zm 9v', 'Zm9v\n', 'Zm9v.', '+_-A', '//8A', 'Zm9vé'])(
    'refuses %j',
    (text) => {
      expect(decodeBase64url(text)).toBeNull();
    },
  );

  it('gives the same bytes from readBase64url and decodeBase64url', () => {
    const usual = fc.uint8Array({ maxLength: 200 }).map(encodeBase64url);
    const spoilt = fc
      .tuple(usual, fc.string({ unit: fc.constantFrom(...alphabet, '=', '+', '/', 'é', 'Ł'), maxLength: 2 }))
      .map((parts) => parts.join(''));
    fc.assert(
      fc.property(fc.oneof(usual, spoilt, fc.string({ unit: codePoint })), (text) => {
        expect(readBase64url(text)).toEqual(decodeBase64url(text));
      }),
      { numRuns: 500 },
    );
    const longest = encodeBase64url(new Uint8Array((limits.tokenBytesMax / 4) * 3).fill(7));
    for (const text of [longest, `${longest}AAAA`, `${longest}=`])
      expect(readBase64url(text)).toEqual(decodeBase64url(text));
  });

  it('gives memory of its own, not a part of a buffer that others use', () => {
    const bytes = decodeBase64url(encodeBase64url(Buffer.from('a key of 32 bytes, as it is kept')));
    expect(bytes?.buffer.byteLength).toBe(32);
  });
});
