/** The three answers of a gate. */
export const outcomes = ['PERMIT', 'SUSPEND', 'BLOCK'] as const;
export type Outcome = (typeof outcomes)[number];

/** Why an answer is not PERMIT: the closed list of contract §5. */
export const decisionReasons = [
  'passport_malformed',
  'passport_signature_invalid',
  'passport_not_yet_valid',
  'passport_expired',
  'passport_revoked',
  'passport_suspended',
  'passport_unknown_key',
  'mode_mismatch',
  'trust_level_insufficient',
  'issuer_untrusted',
  'issuer_keys_stale',
  'proof_missing',
  'proof_invalid',
  'proof_replayed',
  'permission_missing',
  'permission_not_granted',
  'permission_not_in_catalog',
  'condition_not_met',
  'condition_error',
  'domain_not_allowed',
  'domain_missing',
  'pii_detected',
  'currency_unsupported',
  'amount_missing',
  'spend_limit_exceeded',
  'rate_limit_exceeded',
  'quota_unavailable',
  'state_stale',
  'approval_required',
  'approval_denied',
  'approval_expired',
  'approval_used',
  'approval_mismatch',
  'approvals_pending_exceeded',
  'wallet_limit_exceeded',
  'wallet_frozen',
] as const;

export type DecisionReason = (typeof decisionReasons)[number];

/**
 * The checks of a decision in their order (contract §5); the first BLOCK wins. These names are in
 * `constraints_evaluated`.
 */
export const checkNames = [
  'passport',
  'trust_level',
  'freshness',
  'issuer',
  'proof_of_possession',
  'permission',
  'conditions',
  'domain_allowlist',
  'pii_controls',
  'spend_limit',
  'rate_limit',
  'approval',
] as const;

export type CheckName = (typeof checkNames)[number];
