import { timingSafeEqual } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { assert } from '../errors/assert.ts';
import type { Mode } from '../model/mode.ts';
import { sha256Hex } from './content-hash.ts';

/**
 * `at_live_` or `at_test_` + 30 random base62 characters + 6 of CRC32 over everything before them (contract
 * §2). The checksum is no security: it detects mistyped and foreign keys without a query.
 */
const base62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const randomChars = 30;
const checksumChars = 6;
const keyPattern = /^at_(live|test)_([0-9A-Za-z_-]{32,128})$/;

/** Random bytes per key: 256 bits for 62^30 (178.6 bits), so that the modulo bias is below 2^-77. */
export const apiKeyRandomBytes = 32;

export function makeApiKey(mode: Mode, randomBytes: Uint8Array): string {
  assert(randomBytes.length >= apiKeyRandomBytes, 'an API key is made of 32 random bytes');
  const randomness = BigInt(`0x${Buffer.from(randomBytes.subarray(0, apiKeyRandomBytes)).toString('hex')}`);
  const body = `at_${mode}_${renderBase62(randomness, randomChars)}`;
  return body + checksum(body);
}

/**
 * Checks the form of a key; null if it cannot be one. A key with the length of `makeApiKey` must carry its
 * checksum. For ADMIN_API_KEY an operator may choose 32 to 128 characters of base62, `_` and `-` (contract
 * §1). Does not check whether the key exists.
 */
export function parseApiKey(text: string): { readonly mode: Mode } | null {
  const match = keyPattern.exec(text);
  if (match === null) return null;
  if (match[2]?.length === randomChars + checksumChars && !hasChecksum(text)) return null;
  return { mode: match[1] === 'live' ? 'live' : 'test' };
}

/** Hex SHA-256, the stored form of a key. Its 178 random bits need no slow hash. */
export const hashApiKey = (key: string): string => sha256Hex(key);

/** Whether the hash is this key's, in constant time. */
export function isKeyOfHash(key: string, keyHash: string): boolean {
  const given = Buffer.from(hashApiKey(key));
  const expected = Buffer.from(keyHash);
  return given.length === expected.length && timingSafeEqual(given, expected);
}

const hasChecksum = (key: string): boolean =>
  key.slice(-checksumChars) === checksum(key.slice(0, -checksumChars));

const checksum = (body: string): string => renderBase62(BigInt(crc32(body)), checksumChars);

/** The last `chars` digits, most significant first, padded with `0`. */
function renderBase62(value: bigint, chars: number): string {
  let text = '';
  let rest = value;
  for (let i = 0; i < chars; i++) {
    text = base62.charAt(Number(rest % 62n)) + text;
    rest /= 62n;
  }
  return text;
}
