import type { DecisionReason } from '../model/decision.ts';
import { allowsDomain } from './compile-domains.ts';
import type { CompiledPolicy } from './compile-gate.ts';
import type { VerifiedPassport } from './facts.ts';

/** Whether there is a list of domains at all, the gate's or the passport's own. */
export const hasDomainList = (policy: CompiledPolicy, passport: VerifiedPassport): boolean =>
  policy.allowedDomains !== null || passport.allowedDomains !== null;

/** Whether every existing list allows the domain. A request without a domain is not allowed. */
export function checkDomain(
  policy: CompiledPolicy,
  passport: VerifiedPassport,
  domain: string | null,
): DecisionReason | null {
  if (domain === null) return 'domain_missing';
  if (policy.allowedDomains !== null && !allowsDomain(policy.allowedDomains, domain))
    return 'domain_not_allowed';
  if (passport.allowedDomains !== null && !allowsDomain(passport.allowedDomains, domain))
    return 'domain_not_allowed';
  return null;
}
