import { checkIssuer } from '../../shared/decision/check-issuer.ts';
import { demandedProof } from '../../shared/decision/check-proof.ts';
import { checkTrustLevel } from '../../shared/decision/check-trust-level.ts';
import type { CompiledGate } from '../../shared/decision/compile-gate.ts';
import type { PassportStanding, VerifiedPassport } from '../../shared/decision/facts.ts';
import type { DecisionReason } from '../../shared/model/decision.ts';
import type { TokenExplanation } from '../../shared/wire/api/federation-operations.ts';

type Step = TokenExplanation['steps'][number];

/** What a gate makes of a passport by trust alone, in the order of a decision and up to the first refusal. */
export interface GateExplanation {
  readonly reason: DecisionReason | null;
  readonly steps: readonly Step[];
}

/** As of a subject that nobody has suspended or revoked. Its requests are not looked at. */
export function explainGate(gate: CompiledGate, passport: VerifiedPassport): GateExplanation {
  const steps: Step[] = [];
  for (const { reason, ...step } of lookAt(gate, passport)) {
    steps.push({ ...step, is_good: reason === null });
    if (reason !== null) return { reason, steps };
  }
  return { reason: null, steps };
}

interface Look extends Omit<Step, 'is_good'> {
  readonly reason: DecisionReason | null;
}

function* lookAt(gate: CompiledGate, passport: VerifiedPassport): Generator<Look> {
  const { trustLevel } = gate;
  const level = trustLevel === null ? null : checkTrustLevel(gate, trustLevel, passport);
  yield {
    ...{ claim: 'gate.trust_level', value: trustLevel, reason: level },
    becomes:
      level === null
        ? `The tier ${passport.trustTier} reaches it.`
        : `The gate demands ${trustLevel}, and the tier is ${passport.trustTier}.`,
  };
  const issuer = checkIssuer(gate, passport, unharmed);
  yield {
    ...{ claim: 'gate.constraints.trusted_issuers', value: namedBy(gate), reason: issuer },
    becomes:
      issuer === null
        ? 'The gate trusts this issuer.'
        : `The gate does not trust this issuer: it has to name ${passport.issuerId} or own.`,
  };
  const demand = demandedProof(gate, passport);
  if (demand === 'off') return;
  const hasKey = passport.agentKey !== '';
  yield {
    ...{ claim: 'cnf.jwk', value: hasKey ? passport.agentKey : null },
    reason: hasKey ? null : 'proof_invalid',
    becomes: hasKey
      ? 'Each request has to prove this key.'
      : 'Each request has to prove a key, and the token names none of Ed25519 or P-256 in cnf.jwk.',
  };
}

/** As of a passport that nobody has ended. */
export const unharmed: PassportStanding = {
  status: 'active',
  isIssuerSuspended: false,
  isAccountSuspended: false,
  isKeyCompromised: false,
  isInWallet: false,
  stateAgeMs: 0,
};

function namedBy({ trustedIssuers }: CompiledGate): string {
  if (trustedIssuers === 'any') return '*';
  const { own, named } = trustedIssuers;
  return [...(own ? ['own'] : []), ...named].join(', ');
}
