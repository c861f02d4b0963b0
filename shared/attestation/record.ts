import { textHash } from '../crypto/content-hash.ts';
import type { AttestationRecord } from '../model/attestation.ts';
import { renderTime } from '../model/time.ts';
import { type AttestationAnswer, asWritten, renderFinding } from '../wire/attestation.ts';

/** A record with its place in its chain: all that is hashed. */
export interface PlacedRecord extends AttestationRecord {
  readonly sequence: number;
  readonly previousAttestationHash: string | null;
  readonly signingKeyId: string;
}

/** What a signature is over: the public form without `hash` and `signature` (contract §9). */
export type SignedBody = Omit<AttestationAnswer, 'hash' | 'signature'>;

/** The members are in the order of RFC 8785; `recordHash` relies on it. */
export const signedBody = (record: PlacedRecord): SignedBody =>
  asWritten({
    amount_micro_usd: record.amountMicroUsd,
    chain_id: record.chainId,
    constraints_evaluated: [...record.constraintsEvaluated],
    decision: record.decision,
    gate_id: record.gateId,
    id: record.id,
    passport_id: record.passportId,
    permission_key: record.permissionKey,
    pii: record.pii.map(renderFinding),
    previous_attestation_hash: record.previousAttestationHash,
    reason: record.reason,
    refers_to: record.refersTo,
    request_hash: record.requestHash,
    resolution: record.resolution,
    sequence: record.sequence,
    signing_key_id: record.signingKeyId,
    source: record.source,
    source_account: record.sourceAccount,
    test: record.test,
    timestamp: renderTime(record.timestampMs),
  });

/**
 * `sha256:` + hex over the RFC 8785 form of the signed body. With its members in their order,
 * `JSON.stringify` writes that form in a fifth of the time of sorting them (1.0 against 4.5 us on Node 20,
 * where a signature costs 18 us); a property test holds it against `contentHash`. Needs strings without lone
 * surrogates, which are refused at every edge.
 */
export const recordHash = (record: PlacedRecord): string => textHash(JSON.stringify(signedBody(record)));

/**
 * ASCII text that the key signs: the prefix keeps a record's signature from passing for one of another kind.
 */
export const signatureMessage = (hash: string): string => `agent-trust.attestation.v1:${hash}`;
