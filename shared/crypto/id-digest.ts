import { assert } from '../errors/assert.ts';
import { type DigestWords, type IdDigest, idDigestBytes, idDigestWords } from '../model/id-digest.ts';
import { decodeBase64url, encodeBase64url } from './base64url.ts';
import { sha256Bytes, sha256Chars } from './content-hash.ts';

/** `id` is of any kind: the prefix is part of what is hashed, so that no two kinds share a digest. */
export const idDigest = (id: string): IdDigest => encodeBase64url(firstBytes(id)) as IdDigest;

/** The digests of these ids, one after another. */
export function digestWordsOf(...ids: readonly string[]): DigestWords {
  const words = new Int32Array(ids.length * idDigestWords) as DigestWords;
  for (const [index, id] of ids.entries()) writeDigest(words, index * idDigestWords, id);
  return words;
}

/** Writes the digest of an id from `words[at]` on. */
export function writeDigest(words: DigestWords, at: number, id: string): void {
  const chars = sha256Chars(id);
  for (let i = 0; i < idDigestWords; i++) {
    const first = i * Int32Array.BYTES_PER_ELEMENT;
    // Little-endian, as in `toWords`.
    words[at + i] =
      chars.charCodeAt(first) |
      (chars.charCodeAt(first + 1) << 8) |
      (chars.charCodeAt(first + 2) << 16) |
      (chars.charCodeAt(first + 3) << 24);
  }
}

/**
 * Reads base64url of whole digests, one after another. Throws for everything else: a partial digest would
 * silently block no passport.
 */
export function readDigests(text: string): DigestWords {
  const bytes = decodeBase64url(text);
  assert(bytes !== null && bytes.length % idDigestBytes === 0, 'digests are base64url of 16 bytes each');
  return toWords(bytes);
}

/** How many `readDigests` would read. */
export const digestCount = (text: string): number => Math.floor((text.length * 6) / 8 / idDigestBytes);

const firstBytes = (id: string): Uint8Array => sha256Bytes(id).subarray(0, idDigestBytes);

/** Always little-endian, so that a digest has the same words on every machine. */
function toWords(bytes: Uint8Array): DigestWords {
  const words = new Int32Array((bytes.length / idDigestBytes) * idDigestWords);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  for (let i = 0; i < words.length; i++) words[i] = view.getInt32(i * Int32Array.BYTES_PER_ELEMENT, true);
  return words as DigestWords;
}
