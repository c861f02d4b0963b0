import { assert } from '../errors/assert.ts';
import type { Attestation } from '../model/attestation.ts';

/*
 * DSSE envelopes (https://github.com/secure-systems-lab/dsse, protocol 1.0.2) with in-toto Statements v1
 * (https://github.com/in-toto/attestation), for programs that collect those (docs/exports.md).
 */

const payloadType = 'application/vnd.in-toto+json';

/** An in-toto Statement, before it has its fixed members. */
export interface Statement {
  readonly predicateType: string;
  readonly predicate: object;
  readonly subject: { readonly name: string; readonly sha256Hex: string };
}

/** The members are in the order of RFC 8785, except in the predicate, which is the caller's to order. */
export function statementJson({ predicate, predicateType, subject }: Statement): string {
  assert(subject.sha256Hex.length === 64, 'a subject has its SHA-256 in hex');
  return JSON.stringify({
    _type: 'https://in-toto.io/Statement/v1',
    predicate,
    predicateType,
    subject: [{ digest: { sha256: subject.sha256Hex }, name: subject.name }],
  });
}

/** What an envelope's signature is over: DSSE's pre-authentication encoding (PAE). Its UTF-8 is signed. */
export const signedText = (payload: string): string =>
  `DSSEv1 ${payloadType.length} ${payloadType} ${Buffer.byteLength(payload)} ${payload}`;

/** One line. `signature`: 64 bytes by the key with this id. */
export function envelopeLine(
  payload: string,
  { keyId, signature }: { readonly keyId: string; readonly signature: Uint8Array },
): string {
  assert(signature.length === 64, 'an envelope has the signature of an Ed25519 key');
  return `${JSON.stringify({
    payload: Buffer.from(payload, 'utf8').toString('base64'),
    payloadType,
    signatures: [{ keyid: keyId, sig: Buffer.from(signature).toString('base64') }],
  })}\n`;
}

/** Why a record gets no envelope. */
export const envelopeFaults = {
  record_invalid: 'its hash or its signature does not verify',
  key_compromised: 'its signature is by a key that was declared compromised',
  key_unknown: 'its signature is by a key that the service does not have',
} as const;

export type EnvelopeFault = keyof typeof envelopeFaults;

/** The attestation key that signs the envelopes of an export. */
export interface EnvelopeKey {
  readonly keyId: string;
  /** Of a text of ours that names no record. */
  sign(text: string): Uint8Array;
}

/** A record, and the text that has to be signed for it. */
export interface UnsignedRecord {
  /** Its hash was computed from its content. */
  readonly attestation: Attestation;
  readonly text: string;
}

/** 64 bytes, or why there are none. */
export type EnvelopeSignature = Uint8Array | EnvelopeFault;
