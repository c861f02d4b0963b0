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
  const read = readBase64url(text);
  if (read === null) return null;
  // Keys and secrets are kept, and of Node's pool each would keep 8 KiB.
  const own = Buffer.allocUnsafeSlow(read.length);
  own.set(read);
  return own;
}

/** Holds a whole token. */
const scratch = Buffer.allocUnsafeSlow(limits.tokenBytesMax);

/** `decodeBase64url` into a shared buffer: the next call overwrites the bytes. */
export function readBase64url(text: string): Uint8Array | null {
  const to = text.length > scratch.length ? Buffer.allocUnsafeSlow(text.length) : scratch;
  const length = to.write(text, 'base64url');
  // Buffer skips unknown characters. Encoding the bytes again, 0.2 us for a token, detects that.
  return to.toString('base64url', 0, length) === text ? to.subarray(0, length) : null;
}
