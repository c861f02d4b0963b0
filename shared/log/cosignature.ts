import type { Signer } from '../crypto/ed25519.ts';
import { assert } from '../errors/assert.ts';
import { minuteMs, secondMs } from '../model/time.ts';
import {
  type Note,
  type NoteKey,
  type NoteSignature,
  noteKeyId,
  signaturesOf,
  signatureTypes,
} from './note.ts';

/** C2SP tlog-cosignature, the form for Ed25519: eight bytes of seconds, then the signature. */
const timestampBytes = 8;
const signatureBytes = 64;

const cosignedText = (noteText: string, atS: number | bigint): Buffer =>
  Buffer.from(`cosignature/v1\ntime ${atS}\n${noteText}`);

export function cosign(name: string, signer: Signer, noteText: string, atS: number): NoteSignature {
  assert(atS > 0, 'a cosignature states when it was made');
  const timestamp = Buffer.alloc(timestampBytes);
  timestamp.writeBigUInt64BE(BigInt(atS));
  return {
    name,
    keyId: noteKeyId(name, signatureTypes.cosignature, signer.publicKey),
    signature: Buffer.concat([timestamp, signer.sign(cosignedText(noteText, atS))]),
  };
}

/** Whether the signature is this witness's over the text. */
export function verifiesCosignature(key: NoteKey, noteText: string, signature: Uint8Array): boolean {
  if (key.type !== signatureTypes.cosignature || signature.length !== timestampBytes + signatureBytes)
    return false;
  const atS = Buffer.from(signature).readBigUInt64BE();
  if (atS === 0n || atS > 0x7fff_ffff_ffff_ffffn) return false;
  return key.verify(cosignedText(noteText, atS), signature.subarray(timestampBytes));
}

/** When a cosignature counts, in Unix milliseconds; both ends are included. */
export interface CosignatureTimes {
  readonly fromMs: number;
  readonly untilMs: number;
}
const always: CosignatureTimes = { fromMs: 0, untilMs: Number.POSITIVE_INFINITY };

/** As far as the clock of a witness may be from ours. */
export const witnessClockMsMax = 5 * minuteMs;

/** Of one that verifies: whether the time that it states is one of these. */
export function isTimely(signature: Uint8Array, { fromMs, untilMs }: CosignatureTimes): boolean {
  const atMs = Number(Buffer.from(signature).readBigUInt64BE()) * secondMs;
  return atMs >= fromMs && atMs <= untilMs;
}

/** The cosignature of a witness; a forged one spoils the note, one of another time does not count. */
export function isCosignedBy(
  note: Note,
  key: NoteKey,
  times = always,
): 'signed' | 'unsigned' | 'untimely' | 'forged' {
  const found = signaturesOf(note, key);
  if (found.length === 0) return 'unsigned';
  if (!found.every(({ signature }) => verifiesCosignature(key, note.text, signature))) return 'forged';
  return found.some(({ signature }) => isTimely(signature, times)) ? 'signed' : 'untimely';
}
