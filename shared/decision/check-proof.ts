import { unreachable } from '../errors/assert.ts';
import type { DecisionReason } from '../model/decision.ts';
import { type ProofDemand, type ProofScheme, stricterProof } from '../model/proof.ts';
import type { UnixMillis } from '../model/time.ts';
import type { Decision, PresentedProof, RequestFacts } from './facts.ts';

type Demanding = { readonly proof: ProofDemand };

/** What the gate and the passport demand together: either is enough. */
export const demandedProof = (policy: Demanding, passport: Demanding): ProofDemand =>
  stricterProof(policy.proof, passport.proof);

/**
 * Whether a proof that is demanded is there, good, in time and new (contract §5). 'unknown': nobody has
 * looked at it so far, or not far enough for this demand. The window is looked at each time, because a
 * request may have waited.
 */
export function checkProof(
  demand: ProofDemand,
  proof: PresentedProof,
  nowMs: UnixMillis,
): DecisionReason | 'unknown' | null {
  switch (proof.kind) {
    case 'none':
      return 'proof_missing';
    case 'unread':
      return 'unknown';
    case 'invalid':
      return 'proof_invalid';
    case 'replayed':
      return 'proof_replayed';
    case 'unavailable':
      return 'quota_unavailable';
    case 'verified':
      if (nowMs < proof.fromMs || nowMs > proof.untilMs) return 'proof_invalid';
      return demand === 'exact' && proof.firstUse !== 'exact' ? 'unknown' : null;
    default:
      return unreachable(proof);
  }
}

/**
 * How the agent has proved its key to this decision (contract §9). Null: nothing was demanded, or it has not.
 */
export function provenBy({ evaluated, reason }: Decision, { proof }: RequestFacts): ProofScheme | null {
  if (proof.kind !== 'verified' || !evaluated.includes('proof_of_possession')) return null;
  return reason === 'proof_invalid' ? null : proof.scheme;
}
