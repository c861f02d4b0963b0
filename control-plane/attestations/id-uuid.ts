import { assert } from '../../shared/errors/assert.ts';
import type { AttestationId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';

/** Crockford base 32 (shared/model/ids.ts). */
const alphabet = '0123456789abcdefghjkmnpqrstvwxyz';
const bitsOfChar = new Uint8Array(128);
for (let i = 0; i < alphabet.length; i++) bitsOfChar[alphabet.charCodeAt(i)] = i;

const prefix = 'att_';

export const uuidBytes = 16;
const uuid = Buffer.alloc(uuidBytes);

/**
 * The 128 bits of an id's 26 characters: five bits each, three in the first. The buffer is reused by the next
 * call.
 */
export function uuidBytesOfId(id: AttestationId): Buffer {
  let bits = 0;
  let count = -2;
  let to = 0;
  for (let i = prefix.length; i < id.length; i++) {
    bits = ((bits << 5) | (bitsOfChar[id.charCodeAt(i)] ?? 0)) & 0xfff;
    count += 5;
    if (count >= 8) {
      count -= 8;
      uuid[to++] = bits >> count;
    }
  }
  // With less of them the rest would be that of the id before.
  assert(to === uuidBytes, 'an id has 26 characters');
  return uuid;
}

/** The uuid in a form PostgreSQL reads: 32 hex digits. */
export const uuidOfId = (id: AttestationId): string => uuidBytesOfId(id).toString('hex');

/**
 * When the id was made, by whoever made it: no record arrived more than a minute before that (contract §9),
 * so that `records_from` (0041) of this time leaves out only partitions without it.
 */
export const timeOfId = (id: AttestationId): UnixMillis => uuidBytesOfId(id).readUIntBE(0, 6) as UnixMillis;

/** The earliest of them. */
export const earliestOf = (ids: readonly AttestationId[]): UnixMillis =>
  ids.reduce((earliest, id) => Math.min(earliest, timeOfId(id)), timeMsMax) as UnixMillis;

/** An id has 48 bits of time. */
const timeMsMax = 2 ** 48 - 1;

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
