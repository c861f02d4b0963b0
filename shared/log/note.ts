import { sha256Bytes } from '../crypto/content-hash.ts';
import type { Ed25519, Signer, Verifier } from '../crypto/ed25519.ts';
import { assert } from '../errors/assert.ts';

/** C2SP signed-note: a text with signatures, each by a named key. */
export interface Note {
  /** Ends with a newline. */
  readonly text: string;
  readonly signatures: readonly NoteSignature[];
}

export interface NoteSignature {
  readonly name: string;
  /** First four bytes of what was encoded, as 8 digits in hex. */
  readonly keyId: string;
  readonly signature: Uint8Array;
}

/** `0x01` signs the text of the note, `0x04` the text of a cosignature. */
export const signatureTypes = { ed25519: 1, cosignature: 4 } as const;
export type SignatureType = (typeof signatureTypes)[keyof typeof signatureTypes];

/** A key of others, by its vkey. */
export interface NoteKey {
  readonly name: string;
  readonly keyId: string;
  readonly type: SignatureType;
  /** 32 bytes. */
  readonly publicKey: Uint8Array;
  readonly verify: Verifier;
}

/** Far above what any log has, and a signature line of other algorithms has nearly 5 KiB. */
export const noteBytesMax = 256 * 1024;
const signaturesMax = 64;
const dash = '\u2014';

/** Standard base64 with padding; null for what that would not have written. */
export function decodeBase64(text: string): Uint8Array | null {
  const bytes = Buffer.from(text, 'base64');
  return bytes.toString('base64') === text ? bytes : null;
}

export const encodeBase64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64');

export const isKeyName = (name: string): boolean => name !== '' && !/[\s+]/u.test(name);

/** The first four bytes of SHA-256 over name, newline, type and key. */
export const noteKeyId = (name: string, type: SignatureType, publicKey: Uint8Array): string =>
  Buffer.from(sha256Bytes(Buffer.concat([Buffer.from(`${name}\n`), Buffer.of(type), publicKey])))
    .subarray(0, 4)
    .toString('hex');

export const renderVkey = (name: string, type: SignatureType, publicKey: Uint8Array): string =>
  `${name}+${noteKeyId(name, type, publicKey)}+${encodeBase64(Buffer.concat([Buffer.of(type), publicKey]))}`;

/** Null: not a vkey of an Ed25519 key. */
export function parseVkey(ed25519: Pick<Ed25519, 'verifier'>, vkey: string): NoteKey | null {
  const [, name, keyId, encoded] = /^([^+]+)\+([0-9a-f]{8})\+([A-Za-z0-9+/=]+)$/.exec(vkey) ?? [];
  const bytes = encoded === undefined ? null : decodeBase64(encoded);
  if (name === undefined || keyId === undefined || bytes === null || !isKeyName(name)) return null;
  const type = Object.values(signatureTypes).find((known) => known === bytes[0]);
  const publicKey = bytes.subarray(1);
  if (type === undefined || publicKey.length !== 32 || noteKeyId(name, type, publicKey) !== keyId)
    return null;
  try {
    return { name, keyId, type, publicKey, verify: ed25519.verifier(publicKey) };
  } catch {
    return null;
  }
}

/** Null: not a signed note, or one with more signatures than are read. */
export function parseNote(note: string): Note | null {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what a note must not hold
  if (Buffer.byteLength(note) > noteBytesMax || /[\u0000-\u0009\u000b-\u001f\ufffd]/.test(note)) return null;
  const end = note.lastIndexOf('\n\n');
  if (end < 0 || !note.endsWith('\n')) return null;
  const lines = note.slice(end + 2, -1).split('\n');
  if (lines.length > signaturesMax) return null;
  const signatures = lines.map(parseSignatureLine);
  if (!signatures.every((signature) => signature !== null)) return null;
  return { text: note.slice(0, end + 1), signatures };
}

/** Without its newline; null: not one. */
export function parseSignatureLine(line: string): NoteSignature | null {
  const [start, name = '', encoded = '', ...more] = line.split(' ');
  const bytes = decodeBase64(encoded);
  if (start !== dash || !isKeyName(name) || bytes === null || bytes.length < 5 || more.length > 0)
    return null;
  return { name, keyId: Buffer.from(bytes.subarray(0, 4)).toString('hex'), signature: bytes.subarray(4) };
}

export const renderSignatureLine = ({ name, keyId, signature }: NoteSignature): string =>
  `${dash} ${name} ${encodeBase64(Buffer.concat([Buffer.from(keyId, 'hex'), signature]))}\n`;

export const renderNote = ({ text, signatures }: Note): string =>
  `${text}\n${signatures.map(renderSignatureLine).join('')}`;

export function signNote(name: string, signer: Signer, text: string): NoteSignature {
  assert(text.endsWith('\n'), 'the text of a note ends its last line');
  const keyId = noteKeyId(name, signatureTypes.ed25519, signer.publicKey);
  return { name, keyId, signature: signer.sign(Buffer.from(text)) };
}

/** Of this key, whatever its algorithm says of it. */
export const signaturesOf = (note: Note, { name, keyId }: Pick<NoteKey, 'name' | 'keyId'>): NoteSignature[] =>
  note.signatures.filter((signature) => signature.name === name && signature.keyId === keyId);

/** A signature of a known key that does not verify spoils the note, whatever else is there. */
export function isSignedBy(note: Note, key: NoteKey): 'signed' | 'unsigned' | 'forged' {
  const found = signaturesOf(note, key);
  if (found.length === 0) return 'unsigned';
  const message = Buffer.from(note.text);
  return found.every(({ signature }) => key.verify(message, signature)) ? 'signed' : 'forged';
}
