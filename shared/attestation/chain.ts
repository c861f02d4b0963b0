/**
 * Room `shared/attestation`: records on their chains: `record.ts` is the signed body, this file links,
 * `export.ts` is the file that an auditor gets. What verifies it is in `clients/node/src/verify`.
 */

import { assert } from '../errors/assert.ts';
import type { Attestation, AttestationRecord, RecordForm } from '../model/attestation.ts';
import { type PlacedRecord, recordHash, signatureMessage } from './record.ts';

/** The last record of a chain. Sequence 0 and null for an empty chain. */
export interface ChainHead {
  readonly sequence: number;
  readonly hash: string | null;
}

export const emptyChain: ChainHead = { sequence: 0, hash: null };

/**
 * Links a record to the head of its chain and signs it. The caller holds the chain's lock; the result's
 * sequence and hash are the next head. `sign` returns base64url Ed25519 over the ASCII message.
 */
export function linkAttestation(
  record: AttestationRecord,
  head: ChainHead,
  key: { readonly kid: string; sign(message: string): string },
): Attestation {
  const placed = placeRecord(record, head, key.kid);
  const hash = recordHash(placed);
  return { ...placed, hash, signature: key.sign(signatureMessage(hash)) };
}

const formOf = ({ asserted }: AttestationRecord): RecordForm => (asserted === null ? 1 : 2);

/**
 * The first half of `linkAttestation`: what is hashed. Spelled out, because a batch places a thousand records
 * and spreading the members of each takes as long as hashing them. `form`: of the result.
 */
export function placeRecord(
  record: AttestationRecord,
  head: ChainHead,
  signingKeyId: string,
  form: RecordForm = formOf(record),
): PlacedRecord {
  const is2 = form === 2;
  assert((head.sequence === 0) === (head.hash === null), 'a chain has a hash once it has a record');
  assert(record.sourceAccount !== null, 'a new record names the account that it comes from');
  assert((record.resolution === null) === (record.refersTo === null), 'a resolution names what it resolves');
  return {
    id: record.id,
    chainId: record.chainId,
    passportId: record.passportId,
    gateId: record.gateId,
    decision: record.decision,
    reason: record.reason,
    requestHash: record.requestHash,
    permissionKey: record.permissionKey,
    amountMicroUsd: record.amountMicroUsd,
    constraintsEvaluated: record.constraintsEvaluated,
    pii: record.pii,
    test: record.test,
    resolution: record.resolution,
    refersTo: record.refersTo,
    source: record.source,
    sourceAccount: record.sourceAccount,
    timestampMs: record.timestampMs,
    policyHash: is2 ? record.policyHash : null,
    trustLevel: is2 ? record.trustLevel : null,
    domain: is2 ? record.domain : null,
    stateAgeMs: is2 ? record.stateAgeMs : null,
    approvalId: is2 ? record.approvalId : null,
    walletId: is2 ? record.walletId : null,
    walletPath: is2 ? record.walletPath : null,
    holdExpiresAtMs: is2 ? record.holdExpiresAtMs : null,
    proof: is2 ? record.proof : null,
    asserted: is2 ? record.asserted === true : null,
    carried: is2 ? record.carried : null,
    sequence: head.sequence + 1,
    previousAttestationHash: head.hash,
    signingKeyId,
  };
}
