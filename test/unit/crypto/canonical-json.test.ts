import canonicalize from 'canonicalize';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { canonicalJson } from '../../../shared/crypto/canonical-json.ts';
import { contentHash, sha256Hex, textHash } from '../../../shared/crypto/content-hash.ts';
import { codePoint, grapheme } from '../../support/base/arbitrary-text.ts';
import { rfc8785Numbers, rfc8785Texts } from '../../vectors/rfc8785.ts';

describe('canonicalJson', () => {
  it.each(rfc8785Texts)('reproduces RFC 8785 $name', ({ input, output }) => {
    expect(canonicalJson(JSON.parse(input))).toBe(output);
  });

  it.each(rfc8785Numbers)('writes the number %s of RFC 8785 Appendix B as %s', (bits, text) => {
    expect(canonicalJson(Buffer.from(bits, 'hex').readDoubleBE())).toBe(text);
  });

  it('writes what an independent implementation writes', () => {
    // More members than are sorted by hand, and names that look like numbers, which objects keep in an order
    // of their own.
    const many = fc.dictionary(
      fc.oneof(fc.string({ unit: codePoint }), fc.nat().map(String)),
      fc.jsonValue(),
      { maxKeys: 40 },
    );
    fc.assert(
      fc.property(
        fc.oneof(many, fc.jsonValue({ stringUnit: grapheme }), fc.double({ noNaN: true })),
        (value) => {
          fc.pre(typeof value !== 'number' || Number.isFinite(value));
          expect(canonicalJson(value)).toBe(canonicalize(value));
        },
      ),
      { numRuns: 200 },
    );
  });

  it('gives the same value and the same text, in any order of members', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 4 }), (value) => {
        const text = canonicalJson(value);
        expect(canonicalJson(JSON.parse(text))).toBe(text);
        expect(canonicalJson(reversed(value))).toBe(text);
      }),
      { numRuns: 200 },
    );
  });

  it('keeps a member named __proto__', () => {
    expect(canonicalJson(JSON.parse('{"b":1,"__proto__":{"a":2}}'))).toBe('{"__proto__":{"a":2},"b":1}');
  });

  it.each([
    undefined,
    Number.NaN,
    Number.POSITIVE_INFINITY,
    '\ud800',
    { a: '\udc00' },
    { '\ud800': 1 },
    [undefined],
  ])('throws for %j, which has no canonical form', (value) => {
    expect(() => canonicalJson(value)).toThrow();
  });
});

describe('content hashes', () => {
  it('are SHA-256 in lower-case hex', () => {
    // FIPS 180-4, the message "abc".
    const abc = 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad';
    expect(sha256Hex('abc')).toBe(abc);
    expect(sha256Hex(Uint8Array.of(0x61, 0x62, 0x63))).toBe(abc);
    expect(textHash('abc')).toBe(`sha256:${abc}`);
  });

  it('hash the UTF-8 of the canonical form', () => {
    expect(contentHash({ b: 'ö', a: 1 })).toBe(textHash('{"a":1,"b":"ö"}'));
    expect(contentHash(null)).toMatch(/^sha256:[0-9a-f]{64}$/);
  });
});

/** The same JSON value with the members of all objects in the opposite order. */
function reversed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(reversed);
  if (typeof value !== 'object' || value === null) return value;
  const copy: Record<string, unknown> = Object.create(null);
  for (const [name, member] of Object.entries(value).reverse()) copy[name] = reversed(member);
  return copy;
}
