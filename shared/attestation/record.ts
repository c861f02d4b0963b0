import { textHash } from '../crypto/content-hash.ts';
import { type AttestationRecord, noCarried } from '../model/attestation.ts';
import { renderOptionalTime, renderTime } from '../model/time.ts';
import { type AttestationAnswer, asWritten, renderFinding } from '../wire/evidence/attestation.ts';
import { checksJson } from '../wire/evidence/checks-json.ts';

/** A record with its place in its chain: the hashed content. */
export interface PlacedRecord extends AttestationRecord {
  readonly sequence: number;
  readonly previousAttestationHash: string | null;
  readonly signingKeyId: string;
}

/** The signed content: the public form without `hash` and `signature` (contract §9). */
export type SignedBody = Omit<AttestationAnswer, 'hash' | 'signature'>;

/** The members are in the order of RFC 8785; `recordHash` relies on it. */
export function signedBody(record: PlacedRecord): SignedBody {
  const carried = record.carried ?? noCarried;
  return asWritten({
    amount_micro_usd: record.amountMicroUsd,
    approval_id: record.approvalId,
    asserted: record.asserted,
    chain_id: record.chainId,
    conditions: carried.conditions,
    constraints_evaluated: [...record.constraintsEvaluated],
    decision: record.decision,
    domain: record.domain,
    external: carried.external,
    facts: carried.facts,
    gate_id: record.gateId,
    hold_expires_at: renderOptionalTime(record.holdExpiresAtMs),
    id: record.id,
    passport_id: record.passportId,
    permission_key: record.permissionKey,
    permit_token: carried.permit_token,
    pii: record.pii.map(renderFinding),
    policy_hash: record.policyHash,
    previous_attestation_hash: record.previousAttestationHash,
    proof: record.proof,
    reason: record.reason,
    refers_to: record.refersTo,
    request_hash: record.requestHash,
    resolution: record.resolution,
    sequence: record.sequence,
    shadow: carried.shadow,
    signing_key_id: record.signingKeyId,
    source: record.source,
    source_account: record.sourceAccount,
    state_age_ms: record.stateAgeMs,
    test: record.test,
    timestamp: renderTime(record.timestampMs),
    trust_level: record.trustLevel,
    units: carried.units,
    user: carried.user,
    wallet_id: record.walletId,
    wallet_path: record.walletPath,
  });
}

/**
 * `sha256:` + hex over the RFC 8785 form of the signed body. A property test holds it against `contentHash`.
 */
export const recordHash = (record: PlacedRecord): string => textHash(canonicalRecord(record));

/**
 * The text of `JSON.stringify(signedBody(record))`, which is its RFC 8785 form, in a third of the time and
 * with no object in between: the members are known, and all texts but the pointers consist of characters that
 * JSON does not escape (ids, hashes, keys and words of closed lists).
 */
function canonicalRecord(record: PlacedRecord): string {
  const { pii, sourceAccount, asserted } = record;
  // Records of earlier builds have neither member.
  const isOfToday = sourceAccount !== null;
  const is2 = asserted !== null;
  const carried = record.carried ?? noCarried;
  return (
    `{"amount_micro_usd":${record.amountMicroUsd}` +
    `${is2 ? `,"approval_id":${quotedOrNull(record.approvalId)},"asserted":${asserted}` : ''}` +
    `,"chain_id":"${record.chainId}"${is2 ? `,"conditions":${jsonOf(carried.conditions)}` : ''}` +
    `,"constraints_evaluated":${checksJson(record.constraintsEvaluated)},"decision":"${record.decision}"` +
    `${is2 ? `,"domain":${quotedOrNull(record.domain)},"external":${jsonOf(carried.external)}` : ''}` +
    `${is2 ? `,"facts":${jsonOf(carried.facts)}` : ''},"gate_id":${quotedOrNull(record.gateId)}` +
    `${is2 ? `,"hold_expires_at":${quotedOrNull(renderOptionalTime(record.holdExpiresAtMs))}` : ''}` +
    `,"id":"${record.id}","passport_id":${quotedOrNull(record.passportId)}` +
    `,"permission_key":${quotedOrNull(record.permissionKey)}` +
    `${is2 ? `,"permit_token":${quotedOrNull(carried.permit_token)}` : ''}` +
    `,"pii":${pii.length === 0 ? '[]' : JSON.stringify(pii.map(renderFinding))}` +
    `${is2 ? `,"policy_hash":${quotedOrNull(record.policyHash)}` : ''}` +
    `,"previous_attestation_hash":${quotedOrNull(record.previousAttestationHash)}` +
    `${is2 ? `,"proof":${quotedOrNull(record.proof)}` : ''},"reason":${quotedOrNull(record.reason)}` +
    `${isOfToday ? `,"refers_to":${quotedOrNull(record.refersTo)}` : ''},"request_hash":"${record.requestHash}"` +
    `,"resolution":${quotedOrNull(record.resolution)},"sequence":${record.sequence}` +
    `${is2 ? `,"shadow":${jsonOf(carried.shadow)}` : ''}` +
    `,"signing_key_id":"${record.signingKeyId}","source":"${record.source}"` +
    `${isOfToday ? `,"source_account":"${sourceAccount}"` : ''}` +
    `${is2 ? `,"state_age_ms":${record.stateAgeMs}` : ''},"test":${record.test}` +
    `,"timestamp":"${renderTime(record.timestampMs)}"` +
    `${is2 ? `,"trust_level":${quotedOrNull(record.trustLevel)},"units":${jsonOf(carried.units)}` : ''}` +
    `${is2 ? `,"user":${quotedOrNull(carried.user)},"wallet_id":${quotedOrNull(record.walletId)}` : ''}` +
    `${is2 ? `,"wallet_path":${jsonOf(record.walletPath)}` : ''}}`
  );
}

const quotedOrNull = (text: string | null): string => (text === null ? 'null' : `"${text}"`);

const jsonOf = (value: object | null): string => (value === null ? 'null' : JSON.stringify(value));

/** ASCII text that the key signs; the prefix keeps it apart from other kinds of signatures. */
export const signatureMessage = (hash: string): string => `agent-trust.attestation.v1:${hash}`;
