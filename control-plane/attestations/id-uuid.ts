import { assert } from '../../shared/errors/assert.ts';
import type { AttestationId } from '../../shared/model/ids.ts';

/** Crockford base 32 (shared/model/ids.ts). */
const alphabet = '0123456789abcdefghjkmnpqrstvwxyz';
const bitsOfChar = new Uint8Array(128);
for (let i = 0; i < alphabet.length; i++) bitsOfChar[alphabet.charCodeAt(i)] = i;

const prefix = 'att_';

/**
 * The 128 bits of an id's 26 characters as PostgreSQL reads a uuid: 32 hex digits. Two characters are two
 * digits (the first has three bits), and then each four are five.
 */
export function uuidOfId(id: AttestationId): string {
  let hex = hexOf(bitsOf(id, prefix.length, 2), 2);
  for (let at = prefix.length + 2; at < id.length; at += 4) hex += hexOf(bitsOf(id, at, 4), 5);
  return hex;
}

function bitsOf(id: string, start: number, chars: number): number {
  let bits = 0;
  for (let i = start; i < start + chars; i++) bits = (bits << 5) | (bitsOfChar[id.charCodeAt(i)] ?? 0);
  return bits;
}

const hexOf = (bits: number, digits: number): string => bits.toString(16).padStart(digits, '0');

/** The id in a uuid as PostgreSQL writes it: `8-4-4-4-12` hex digits. */
export function idOfUuid(uuid: string): AttestationId {
  const hex = uuid.replaceAll('-', '');
  assert(hex.length === 32, 'a uuid has 128 bits');
  let id = prefix + charsOf(Number.parseInt(hex.slice(0, 2), 16), 2);
  for (let at = 2; at < hex.length; at += 5) id += charsOf(Number.parseInt(hex.slice(at, at + 5), 16), 4);
  return id as AttestationId;
}

function charsOf(bits: number, chars: number): string {
  let text = '';
  for (let shift = 5 * (chars - 1); shift >= 0; shift -= 5) text += alphabet.charAt((bits >> shift) & 31);
  return text;
}
