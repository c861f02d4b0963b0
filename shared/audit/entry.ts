/**
 * Room `shared/audit`: audit entries. Linked and verified here; `states.ts` makes the states of a change in
 * an entry, bounded and without secrets.
 */

import { decodeBase64url } from '../crypto/base64url.ts';
import { contentHash } from '../crypto/content-hash.ts';
import type { Keyset } from '../crypto/keyset.ts';
import { assert } from '../errors/assert.ts';
import type { AuditEntry, AuditFacts } from '../model/audit.ts';
import type { VerificationKey } from '../model/signing-key.ts';
import { auditBody, type PlacedAuditFacts, parseAuditEntry } from '../wire/evidence/audit.ts';

/** The last entry of a chain. Sequence 0 and null for an empty chain. */
export interface AuditHead {
  readonly sequence: number;
  readonly hash: string | null;
}

export const emptyAuditChain: AuditHead = { sequence: 0, hash: null };

/** `sha256:` + hex over the RFC 8785 form of the entry without `hash` and `signature` (contract §16). */
const entryHash = (entry: PlacedAuditFacts): string => contentHash(auditBody(entry));

/**
 * ASCII text that the key signs. The prefix separates it from other messages signed by keys of this purpose:
 * no attestation passes for an entry, and no entry for an attestation.
 */
const signatureMessage = (hash: string): string => `agent-trust.audit.v1:${hash}`;

/**
 * Links an entry to the head of its chain and signs it. The caller holds the chain's lock. `sign` returns
 * base64url Ed25519.
 */
export function linkAuditEntry(
  facts: AuditFacts,
  head: AuditHead,
  key: { readonly kid: string; sign(message: string): string },
): AuditEntry {
  assert((head.sequence === 0) === (head.hash === null), 'a chain has a hash once it has an entry');
  const placed: PlacedAuditFacts = {
    ...facts,
    sequence: head.sequence + 1,
    previousHash: head.hash,
    signingKeyId: key.kid,
  };
  const hash = entryHash(placed);
  return { ...placed, hash, signature: key.sign(signatureMessage(hash)) };
}

/** Faults of an entry, with their texts. */
export const entryFaults = {
  malformed: 'this is not an audit entry',
  hash_mismatch: 'the content of this entry does not match its hash: it was changed',
  unknown_key: 'this entry names a signing key that is not an attestation key of the JWKS',
  signature_invalid: 'the signature of this entry is not valid',
  sequence_gap: 'this is not the next sequence number of its chain: an entry is missing or repeated',
  link_broken: 'this entry does not name the hash of the entry before it',
} as const;

export type EntryFault = keyof typeof entryFaults;

export type EntryVerdict =
  | { readonly kind: 'valid'; readonly entry: AuditEntry; readonly key: VerificationKey }
  | { readonly kind: 'invalid'; readonly fault: EntryFault };

/**
 * Verifies one entry in its public form: its hash, its signature by an attestation key, and its link to
 * `previous`. `previous` null skips the link. Never throws, whatever `wire` is.
 */
export function verifyAuditEntry(wire: unknown, previous: AuditHead | null, keys: Keyset): EntryVerdict {
  const entry = parseAuditEntry(wire);
  if (entry === null) return invalid('malformed');
  if (entryHash(entry) !== entry.hash) return invalid('hash_mismatch');
  const signer = keys.find('attestation', entry.signingKeyId);
  if (signer === null) return invalid('unknown_key');
  const signature = decodeBase64url(entry.signature);
  const message = Buffer.from(signatureMessage(entry.hash), 'latin1');
  if (signature === null || !signer.verify(message, signature)) return invalid('signature_invalid');
  if (previous !== null && entry.sequence !== previous.sequence + 1) return invalid('sequence_gap');
  if (previous !== null && entry.previousHash !== previous.hash) return invalid('link_broken');
  return { kind: 'valid', entry, key: signer.key };
}

const invalid = (fault: EntryFault): EntryVerdict => ({ kind: 'invalid', fault });
