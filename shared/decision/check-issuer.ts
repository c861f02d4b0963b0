import type { DecisionReason } from '../model/decision.ts';
import type { CompiledPolicy } from './compile-gate.ts';
import type { PassportStanding, VerifiedPassport } from './facts.ts';

/** Whether the gate trusts the passport's issuer. No gate trusts a suspended one (contract §4). */
export function checkIssuer(
  policy: CompiledPolicy,
  passport: VerifiedPassport,
  standing: PassportStanding,
): DecisionReason | null {
  if (standing.isIssuerSuspended) return 'issuer_untrusted';
  return isTrusted(policy, passport) ? null : 'issuer_untrusted';
}

/**
 * `*` trusts every issuer of this service, and no issuer of others but its own account's (contract §4).
 *
 * A list of issuers replaces the default: it must name an issuer of the own account, by id or as `own`, to
 * trust it.
 */
function isTrusted({ trustedIssuers, ownAccountId }: CompiledPolicy, passport: VerifiedPassport): boolean {
  if (trustedIssuers === 'any') return passport.source === null || passport.accountId === ownAccountId;
  if (trustedIssuers.named.has(passport.issuerId)) return true;
  return trustedIssuers.own && passport.accountId === ownAccountId;
}
