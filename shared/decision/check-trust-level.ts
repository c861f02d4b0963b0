import type { DecisionReason } from '../model/decision.ts';
import { reachesTier, type TrustTier } from '../model/trust-tier.ts';
import type { CompiledPolicy } from './compile-gate.ts';
import type { VerifiedPassport } from './facts.ts';

/**
 * Whether the passport's tier reaches the required level. A tier is a claim of its issuer: it counts as L1
 * unless the issuer belongs to the gate's account or is named by the gate (contract §4).
 */
export function checkTrustLevel(
  policy: CompiledPolicy,
  level: TrustTier,
  passport: VerifiedPassport,
): DecisionReason | null {
  return reachesTier(tierAt(policy, passport), level) ? null : 'trust_level_insufficient';
}

/** The tier that counts. */
export const tierAt = (policy: CompiledPolicy, passport: VerifiedPassport): TrustTier =>
  isVouchedFor(policy, passport) ? passport.trustTier : 'L1';

/** Whether the gate believes what the issuer says of its passports. */
export function isVouchedFor(policy: CompiledPolicy, passport: VerifiedPassport): boolean {
  if (passport.accountId === policy.ownAccountId) return true;
  const { trustedIssuers } = policy;
  return trustedIssuers !== 'any' && trustedIssuers.named.has(passport.issuerId);
}
