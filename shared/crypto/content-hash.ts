import { createHash, hash } from 'node:crypto';
import { canonicalJson } from './canonical-json.ts';

/** Lower-case hex; a string is hashed as its UTF-8. */
export const sha256Hex = (data: string | Uint8Array): string => hash('sha256', data, 'hex');

export const sha256Bytes = (data: string | Uint8Array): Uint8Array => hash('sha256', data, 'buffer');

/**
 * The hash of a text as one character per byte: half the cost of a byte array, which needs memory outside of
 * the heap.
 */
export const sha256Chars = (text: string): string => hash('sha256', text, 'binary');

/** SHA-256 of a long text that comes in parts. */
export function textHasher(): { add(text: string): void /** Once, at the end. */; hex(): string } {
  const state = createHash('sha256');
  return { add: (text) => void state.update(text, 'utf8'), hex: () => state.digest('hex') };
}

/** `sha256:` + hex over the UTF-8 of a text that is already in its final form. */
export const textHash = (text: string): string => `sha256:${sha256Hex(text)}`;

/**
 * `sha256:` + hex over the RFC 8785 form of a JSON value (contract §9 and §10). Throws as `canonicalJson`
 * does.
 */
export const contentHash = (value: unknown): string => textHash(canonicalJson(value));
