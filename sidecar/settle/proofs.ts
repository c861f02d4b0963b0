import type { PresentedProof, VerifiedPassport, VerifiedProof } from '../../shared/decision/facts.ts';
import { ApiError } from '../../shared/errors/api-error.ts';
import { assert, must, unreachable } from '../../shared/errors/assert.ts';
import { limits } from '../../shared/model/limits.ts';
import type { MonotonicMillis } from '../../shared/model/time.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import { type OpenedProof, openProof } from '../../shared/verification/open-proof.ts';
import type { Answers } from '../decide/answers.ts';
import type { ReadyCheck } from '../decide/check.ts';
import type { SignatureOutcome, SignatureQueue } from '../verify/signature-queue.ts';
import type { ClaimOutcome, ProofClaims } from './proof-claims.ts';
import type { ProofMemory } from './proof-memory.ts';

export interface ProofsDeps {
  readonly signatures: Pick<SignatureQueue, 'verify'>;
  readonly memory: ProofMemory;
  readonly claims: Pick<ProofClaims, 'claim' | 'use'>;
  readonly answers: Pick<Answers, 'isWanted' | 'answerError'>;
  readonly clock: Clock;
  /** Default: limits.quotaWaitMsMax. */
  readonly quotaWaitMs?: number;
}

/**
 * Finds out what the decision does not know of a proof of possession (contract §5), step by step, and only of
 * those that reach it: form and binding, the signature, whether it was used here, and where that is demanded
 * whether it was used anywhere.
 *
 *     unread ──open──> signed? ──pool──> used here? ──> verified ──decides again──┐
 *        └────────────────┴─────────────────┴──> invalid, replayed <──┐           │
 *                                           verified <──ledger── used anywhere? <─┘
 *
 * What a check has used it has used up, whatever becomes of the check.
 */
export class Proofs {
  readonly #deps: ProofsDeps;

  constructor(deps: ProofsDeps) {
    this.#deps = deps;
  }

  /**
   * Calls `again` once more is known, in a later turn or at once. Answers the check where nothing can be
   * known.
   */
  settle(check: ReadyCheck, again: () => void): void {
    const { proof } = check.request;
    if (proof.kind === 'verified') this.#claim(check, proof, again);
    else this.#verify(check, again);
  }

  #verify(check: ReadyCheck, again: () => void): void {
    const passport = passportOf(check);
    const token = must(check.shownToken, 'a check with a proof keeps its token');
    const { proof } = check.asked;
    const opened = openProof(proof, { ...passport, token });
    if (opened === null) {
      this.#found(check, { kind: 'invalid' }, again);
      return;
    }
    const { signedText, signature, key } = opened;
    this.#deps.signatures.verify({ signedText, signature, publicKey: key.bytes }, (outcome) =>
      this.#onSignature(check, opened, outcome, again),
    );
  }

  #onSignature(check: ReadyCheck, opened: OpenedProof, outcome: SignatureOutcome, again: () => void): void {
    switch (outcome) {
      case 'valid':
        this.#use(check, opened, again);
        return;
      case 'invalid':
        this.#found(check, { kind: 'invalid' }, again);
        return;
      case 'overloaded':
        this.#refuse(check, new ApiError('overloaded'));
        return;
      case 'unavailable':
        this.#refuse(
          check,
          new ApiError('service_unavailable', {
            message: 'Proofs cannot be verified now. Try again shortly.',
          }),
        );
        return;
      default:
        unreachable(outcome);
    }
  }

  #use(check: ReadyCheck, { scheme, fromMs, untilMs, replayName }: OpenedProof, again: () => void): void {
    const { memory, claims, clock } = this.#deps;
    const nowMs = clock.now();
    // One that is out of time takes no place among those that were used.
    if (nowMs < fromMs || nowMs > untilMs) {
      this.#found(check, { kind: 'invalid' }, again);
      return;
    }
    const use = memory.use(replayName, untilMs, nowMs);
    if (use === 'full') {
      this.#refuse(check, new ApiError('overloaded'));
      return;
    }
    if (use === 'first') check.proofClaim = claims.use(replayName, untilMs);
    const verified = { kind: 'verified', scheme, fromMs, untilMs, firstUse: 'sidecar' } as const;
    this.#found(check, use === 'first' ? verified : { kind: 'replayed' }, again);
  }

  #claim(check: ReadyCheck, proof: VerifiedProof, again: () => void): void {
    const { claims, clock, quotaWaitMs = limits.quotaWaitMsMax } = this.#deps;
    const claim = must(check.proofClaim, 'a proof that was verified was used here');
    const untilMs = (clock.monotonic() + quotaWaitMs) as MonotonicMillis;
    claims.claim(claim, untilMs, (outcome) => {
      const known = claimed(proof, outcome);
      if (known === null) this.#refuse(check, new ApiError('overloaded'));
      else this.#found(check, known, again);
    });
  }

  #found(check: ReadyCheck, proof: PresentedProof, again: () => void): void {
    check.request = { ...check.request, proof };
    again();
  }

  #refuse(check: ReadyCheck, error: ApiError): void {
    const { answers } = this.#deps;
    if (answers.isWanted(check)) answers.answerError(check, error);
  }
}

function claimed(proof: VerifiedProof, outcome: ClaimOutcome): PresentedProof | null {
  switch (outcome) {
    case 'first':
      return { ...proof, firstUse: 'exact' };
    case 'replayed':
      return { kind: 'replayed' };
    case 'away':
      return { kind: 'unavailable' };
    case 'late':
      return null;
    default:
      return unreachable(outcome);
  }
}

/** The proof comes after the checks of the passport. */
function passportOf({ token }: ReadyCheck): VerifiedPassport {
  assert(token.kind === 'verified', 'only a verified passport has a proof');
  return token.passport;
}
