import { limits } from '../model/limits.ts';

/** RFC 4648 §5 without padding, the only base64 this service writes. */
export const encodeBase64url = (bytes: Uint8Array): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64url');

/**
 * Reads unpadded base64url. Returns null for everything that `encodeBase64url` would not have written:
 * padding, white space, the `+` and `/` of plain base64, set bits after the last byte. Two spellings of the
 * same bytes would be two tokens with one signature.
 */
export function decodeBase64url(text: string): Uint8Array | null {
  // Buffer skips unknown characters. Encoding the bytes again, 0.2 us for a token, detects that.
  const bytes = Buffer.from(text, 'base64url');
  return bytes.toString('base64url') === text ? bytes : null;
}

/** Holds a whole token. */
const scratch = Buffer.allocUnsafeSlow(limits.tokenBytesMax);

/**
 * `decodeBase64url` into a shared buffer: the next call overwrites the bytes. A slice of Buffer's pool, which
 * claims of a passport would otherwise get, keeps 8 KiB alive as long as anything in it is used.
 */
export function readBase64url(text: string): Uint8Array | null {
  if (text.length > scratch.length) return decodeBase64url(text);
  const length = scratch.write(text, 'base64url');
  return scratch.toString('base64url', 0, length) === text ? scratch.subarray(0, length) : null;
}
