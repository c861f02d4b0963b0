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
  const tier = isVouchedFor(policy, passport) ? passport.trustTier : 'L1';
  return reachesTier(tier, level) ? null : 'trust_level_insufficient';
}

function isVouchedFor(policy: CompiledPolicy, passport: VerifiedPassport): boolean {
  if (passport.accountId === policy.ownAccountId) return true;
  const { trustedIssuers } = policy;
  return trustedIssuers !== 'any' && trustedIssuers.named.has(passport.issuerId);
}
