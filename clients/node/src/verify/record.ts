import { canonicalPair, type Json } from './canonical.ts';
import { type AttestationRecord, isRecord } from './export-shapes.ts';

/** What is wrong with one record. */
export type RecordFault =
  | 'malformed'
  | 'hash_mismatch'
  | 'unknown_key'
  | 'signature_invalid'
  | 'sequence_gap'
  | 'link_broken';

/** What is wrong with an export. */
export type ExportFault =
  | RecordFault
  | 'not_a_line'
  | 'not_canonical'
  | 'not_laid_out'
  | 'csv'
  | 'no_manifest'
  | 'manifest_key_unknown'
  | 'key_not_listed'
  | 'key_not_yet_valid'
  | 'no_chain'
  | 'chain_order'
  | 'chain_start'
  | 'wrong_chain'
  | 'wrong_last_hash'
  | 'wrong_archived'
  | 'not_joined'
  | 'stops_early'
  | 'log_proof_invalid'
  | 'log_proof_differs'
  | 'facts_misplaced'
  | 'fact_unnamed'
  | 'fact_mismatch'
  | 'attachment_order'
  | 'attachment_mismatch'
  | 'attachment_key_unknown'
  | 'attachment_signature_invalid'
  | 'attachment_unnamed'
  | 'attachment_missing'
  | 'approval_differs'
  | 'answer_forged'
  | 'answer_missing'
  | 'wrong_counts'
  | 'broken'
  | 'after_end'
  | 'no_end';

/** `message`: for people. */
export class Fault extends Error {
  readonly fault: ExportFault;

  constructor(fault: ExportFault, message: string) {
    super(message);
    this.fault = fault;
  }
}

export function demand(holds: boolean, fault: ExportFault, message: string): asserts holds {
  if (!holds) throw new Fault(fault, message);
}

/** A key of the service; `verifies` is Ed25519 by the rules of contract §11. */
export interface ExportKey {
  readonly notBeforeMs: number;
  readonly isCompromised: boolean;
  verifies(message: string, signature: string): boolean | Promise<boolean>;
}

/** What verifying takes: the keys of the JWKS, and `sha256:` and hex over the UTF-8 of a text. */
export interface ExportCrypto {
  find(purpose: 'attestation' | 'catalog', kid: string): ExportKey | null;
  hash(text: string): string | Promise<string>;
}

/** The last record of a chain. Sequence 0 and null for an empty chain. */
export interface Head {
  readonly sequence: number;
  readonly hash: string | null;
}

/**
 * Verifies one record: its members, hash and signature, and its link to `previous`, the head before it; null
 * skips the link. Null: no fault. Throws nothing, whatever `value` is.
 */
export async function findRecordFault(
  value: unknown,
  previous: Head | null,
  crypto: ExportCrypto,
): Promise<RecordFault | null> {
  try {
    if (!isRecord(value)) return 'malformed';
    await verifyRecord(value, previous, crypto);
    return null;
  } catch (error) {
    if (error instanceof Fault) return error.fault as RecordFault;
    throw error;
  }
}

/** Of a record with its members. Returns the key that signed it, and its RFC 8785 form. Throws `Fault`. */
export async function verifyRecord(
  record: Json & AttestationRecord,
  previous: Head | null,
  crypto: ExportCrypto,
): Promise<{ readonly key: ExportKey; readonly text: string }> {
  const { hash: own, signature } = record;
  const fail = (fault: RecordFault, message: string): never => {
    throw new Fault(fault, message);
  };
  const form = canonicalPair(record, ['hash', 'signature']);
  const { whole: text, rest: body } = form ?? fail('malformed', 'the record has no RFC 8785 form');
  if ((await crypto.hash(body)) !== own) fail('hash_mismatch', 'the hash does not match the record');
  const key =
    crypto.find('attestation', record.signing_key_id) ??
    fail('unknown_key', 'the key is not one of the manifest');
  if (!(await key.verifies(`agent-trust.attestation.v1:${own}`, signature)))
    fail('signature_invalid', 'the signature is not valid');
  const { refers_to: refersTo, resolution } = record;
  if (refersTo !== undefined && (refersTo === null) !== (resolution === null))
    fail('malformed', 'refers_to does not fit');
  if (previous === null) return { key, text };
  if (record.sequence !== previous.sequence + 1)
    fail('sequence_gap', 'the sequence has a hole or a repetition');
  if (record['previous_attestation_hash'] !== previous.hash)
    fail('link_broken', 'the link to the record before is wrong');
  return { key, text };
}
