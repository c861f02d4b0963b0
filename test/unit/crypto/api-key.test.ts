import { crc32 } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { apiKeyRandomBytes, makeApiKey, parseApiKey } from '../../../shared/crypto/api-key.ts';

const chance = (fill: number) => new Uint8Array(apiKeyRandomBytes).fill(fill);
const base62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

describe('makeApiKey', () => {
  it('makes a prefix, 30 characters of chance and 6 of checksum', () => {
    fc.assert(
      fc.property(
        fc.constantFrom('live' as const, 'test' as const),
        fc.uint8Array({ minLength: apiKeyRandomBytes, maxLength: apiKeyRandomBytes }),
        (mode, bytes) => {
          const key = makeApiKey(mode, bytes);
          expect(key).toMatch(new RegExp(`^at_${mode}_[0-9A-Za-z]{36}$`));
          expect(parseApiKey(key)).toEqual({ mode });
          const checksum = [...key.slice(-6)].reduce((sum, digit) => sum * 62 + base62.indexOf(digit), 0);
          expect(checksum).toBe(crc32(key.slice(0, -6)));
        },
      ),
    );
  });

  it('refuses to make a key of too little chance', () => {
    expect(() => makeApiKey('live', new Uint8Array(31))).toThrow();
  });
});

describe('parseApiKey', () => {
  const key = makeApiKey('test', chance(7));

  it('refuses a key of the usual length in which any one character is changed', () => {
    for (let at = 0; at < key.length; at++) {
      const other = key[at] === 'x' ? 'y' : 'x';
      expect(parseApiKey(key.slice(0, at) + other + key.slice(at + 1))).toBeNull();
    }
  });

  it('takes a key of another length that an operator chose: 32 to 128 characters', () => {
    expect(parseApiKey(`at_live_${'a'.repeat(31)}`)).toBeNull();
    expect(parseApiKey(`at_live_${'a'.repeat(32)}`)).toEqual({ mode: 'live' });
    expect(parseApiKey(`at_test_${'a-_9'.repeat(32)}`)).toEqual({ mode: 'test' });
    expect(parseApiKey(`at_live_${'a'.repeat(36)}`)).toBeNull();
    expect(parseApiKey(`at_live_${'a'.repeat(129)}`)).toBeNull();
  });

  it.each([
    '',
    'at_live_',
    `at_prod_${'a'.repeat(32)}`,
    ` ${key}`,
    `${key}\n`,
    key.toUpperCase(),
    `at_live_${'é'.repeat(40)}`,
  ])('refuses %j', (text) => {
    expect(parseApiKey(text)).toBeNull();
  });
});
