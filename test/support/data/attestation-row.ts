import type { Attestation } from '../../../shared/model/attestation.ts';

/** A row of the view `attestations`: a record as text. */
export interface AttestationRow {
  readonly position: number;
  readonly attestation_id: Attestation['id'];
  readonly chain_id: Attestation['chainId'];
  readonly sequence: number;
  readonly previous_hash: string | null;
  readonly hash: string;
  readonly signature: string;
  readonly signing_key_id: string;
  readonly passport_id: Attestation['passportId'];
  readonly gate_id: Attestation['gateId'];
  readonly decision: Attestation['decision'];
  readonly reason: Attestation['reason'];
  readonly request_hash: string;
  readonly permission_key: Attestation['permissionKey'];
  readonly amount_micro_usd: Attestation['amountMicroUsd'];
  readonly constraints_evaluated: Attestation['constraintsEvaluated'];
  readonly pii: Attestation['pii'];
  readonly test: boolean;
  readonly resolution: Attestation['resolution'];
  readonly refers_to: Attestation['refersTo'];
  readonly source: Attestation['source'];
  readonly source_account: Attestation['sourceAccount'];
  readonly timestamp_ms: Attestation['timestampMs'];
  readonly policy_hash: string | null;
  readonly trust_level: Attestation['trustLevel'];
  readonly state_age_ms: number | null;
  readonly domain: string | null;
  readonly approval_id: string | null;
  readonly wallet_id: string | null;
  readonly hold_expires_ms: Attestation['holdExpiresAtMs'];
  readonly proof: Attestation['proof'];
  readonly asserted: boolean | null;
  readonly wallet_path: Attestation['walletPath'];
  readonly carried: Attestation['carried'];
}

/**
 * The record of a row, with the hash that the view finds in the record after it or in the head of its chain.
 */
export const attestationOf = (row: AttestationRow): Attestation => ({
  id: row.attestation_id,
  chainId: row.chain_id,
  passportId: row.passport_id,
  gateId: row.gate_id,
  decision: row.decision,
  reason: row.reason,
  requestHash: row.request_hash,
  permissionKey: row.permission_key,
  amountMicroUsd: row.amount_micro_usd,
  constraintsEvaluated: row.constraints_evaluated,
  pii: row.pii,
  test: row.test,
  resolution: row.resolution,
  refersTo: row.refers_to,
  source: row.source,
  sourceAccount: row.source_account,
  timestampMs: row.timestamp_ms,
  policyHash: row.policy_hash,
  trustLevel: row.trust_level,
  domain: row.domain,
  stateAgeMs: row.state_age_ms,
  approvalId: row.approval_id,
  walletId: row.wallet_id,
  holdExpiresAtMs: row.hold_expires_ms,
  proof: row.proof,
  asserted: row.asserted,
  walletPath: row.wallet_path,
  carried: row.carried,
  sequence: row.sequence,
  previousAttestationHash: row.previous_hash,
  hash: row.hash,
  signature: row.signature,
  signingKeyId: row.signing_key_id,
});
