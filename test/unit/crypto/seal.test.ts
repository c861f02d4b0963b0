import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { encodeBase64url } from '../../../shared/crypto/base64url.ts';
import { macKeyOf, masterKeyId, SealError, sealer } from '../../../shared/crypto/seal.ts';

const masterKey = Uint8Array.from({ length: 32 }, (_, i) => i);
const nonce = new Uint8Array(12).fill(5);
const plain = Buffer.from('a seed of 32 bytes, or so it says', 'utf8');

describe('sealer', () => {
  const { seal, open } = sealer(masterKey);
  const sealed = seal(plain, 'signing_keys/a', nonce);

  it('opens its sealed text, in its context', () => {
    expect(Buffer.from(open(sealed, 'signing_keys/a'))).toEqual(plain);
    expect(open(seal(new Uint8Array(0), '', nonce), '')).toEqual(new Uint8Array(0));
  });

  it('is AES-256-GCM: reproduces a known vector', () => {
    // Test case 14 of "The Galois/Counter Mode of Operation" (McGrew, Viega): key, nonce and 16 bytes of
    // zeros.
    const zeros = sealer(new Uint8Array(32)).seal(new Uint8Array(16), '', new Uint8Array(12));
    const expected = Buffer.from('cea7403d4d606b6e074ec5d3baf39d18d0d1c8a799996bf0265b98b5d48ab919', 'hex');
    expect(zeros).toBe(`v1.AAAAAAAAAAAAAAAA.${encodeBase64url(expected)}`);
  });

  it('refuses another context, another master key, and a changed character anywhere', () => {
    expect(() => open(sealed, 'signing_keys/b')).toThrow(SealError);
    expect(() => sealer(new Uint8Array(32)).open(sealed, 'signing_keys/a')).toThrow(SealError);
    for (let at = 0; at < sealed.length; at++) {
      const other = sealed[at] === 'A' ? 'B' : 'A';
      expect(() => open(sealed.slice(0, at) + other + sealed.slice(at + 1), 'signing_keys/a')).toThrow(
        SealError,
      );
    }
  });

  it('throws SealError, and nothing else, for any text', () => {
    for (const text of ['', 'v1', 'v1..', `${sealed}.`, sealed.slice(0, -24), sealed.replace('v1', 'v2')]) {
      expect(() => open(text, 'signing_keys/a'), text).toThrow(SealError);
    }
    fc.assert(
      fc.property(fc.string(), (text) => {
        expect(() => open(text, '')).toThrow(SealError);
      }),
    );
  });

  it('names its key where that is not the first, and opens what fallbacks sealed', () => {
    const other = new Uint8Array(32).fill(9);
    const named = sealer(other, { isNamed: true, fallbacks: [masterKey] });
    const text = named.seal(plain, 'signing_keys/a', nonce);
    expect(named.prefix).toBe(`v2.${masterKeyId(other)}.`);
    expect(text.startsWith(named.prefix)).toBe(true);
    expect(masterKeyId(other)).toMatch(/^[0-9a-f]{16}$/);
    for (const each of [text, sealed]) {
      expect(Buffer.from(named.open(each, 'signing_keys/a'))).toEqual(plain);
      expect(() => named.open(each, 'signing_keys/b')).toThrow(SealError);
    }
    expect(() => open(text, 'signing_keys/a')).toThrow(`sealed with master key ${masterKeyId(other)}`);
    expect(() => sealer(other).open(sealed, 'signing_keys/a')).toThrow(SealError);
    for (const damaged of [
      text.replace('v2.', 'v1.'),
      text.slice(0, -24),
      text.replace(/\.[0-9a-f]+\./, '..'),
    ])
      expect(() => named.open(damaged, 'signing_keys/a'), damaged).toThrow(SealError);
  });

  it('verifies MACs of fallbacks and of keys that are gone, and makes those of its own key', () => {
    const [first, second, third] = [1, 2, 3].map((fill) => new Uint8Array(32).fill(fill));
    const context = 'agent-trust.receipt.v1';
    const macs = [first, second, third].map((key) => sealer(key ?? masterKey).mac('text', context));
    const kept = [macKeyOf(third ?? masterKey, context)];
    const one = sealer(first ?? masterKey, { fallbacks: [second ?? masterKey], macKeys: kept });
    expect(macs.map((mac) => one.isMacOf(mac, 'text', context))).toEqual([true, true, true]);
    expect(macs.map((mac) => one.isMacOf(mac, 'other', context))).toEqual([false, false, false]);
    expect(one.mac('text', context)).toBe(macs[0]);
    expect(sealer(first ?? masterKey).isMacOf(macs[1] ?? '', 'text', context)).toBe(false);
  });

  it('does not show the sealed text in its error', () => {
    expect(() => open(sealed, 'elsewhere')).toThrow(/^(?!.*seed)/);
  });

  it('copies the master key, and refuses one of another length', () => {
    const own = Uint8Array.from(masterKey);
    const early = sealer(own);
    own.fill(0);
    expect(Buffer.from(early.open(sealed, 'signing_keys/a'))).toEqual(plain);
    expect(() => sealer(masterKey.subarray(1))).toThrow();
    expect(() => seal(plain, '', nonce.subarray(1))).toThrow();
  });
});
