import type { DecisionReason } from '../model/decision.ts';
import type { CompiledPolicy } from './compile-gate.ts';
import type { PassportStanding, VerifiedPassport } from './facts.ts';

/** Whether the passport's issuer is let in. A suspended one is let in nowhere (decisions §4). */
export function checkIssuer(
  policy: CompiledPolicy,
  passport: VerifiedPassport,
  standing: PassportStanding,
): DecisionReason | null {
  if (standing.isIssuerSuspended) return 'issuer_untrusted';
  return isTrusted(policy, passport) ? null : 'issuer_untrusted';
}

/** A list of issuers replaces the default: an issuer of the own account that it does not name is not trusted. */
function isTrusted(policy: CompiledPolicy, passport: VerifiedPassport): boolean {
  const trusted = policy.trustedIssuers;
  if (trusted === 'any') return true;
  if (trusted === 'own') return passport.accountId === policy.accountId;
  return trusted.has(passport.issuerId);
}
