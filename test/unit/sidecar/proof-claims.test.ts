import { afterEach, describe, expect, it } from 'vitest';
import { limits } from '../../../shared/model/limits.ts';
import type { MonotonicMillis } from '../../../shared/model/time.ts';
import { silentLogger } from '../../../shared/runtime/logger.ts';
import { systemRandom } from '../../../shared/runtime/random.ts';
import type { ProofClaim } from '../../../shared/wire/proof-claim.ts';
import { settleLimits } from '../../../sidecar/settle/limits.ts';
import { type ClaimOutcome, ProofClaims } from '../../../sidecar/settle/proof-claims.ts';

/** A ledger that may lose an answer after it has taken the claims. */
class Ledger {
  readonly calls: (readonly ProofClaim[])[] = [];
  readonly #uses = new Map<string, string>();
  losesAnswers = 0;
  isAway = false;

  async send(claims: readonly ProofClaim[]): Promise<readonly boolean[]> {
    this.calls.push(claims);
    const first = claims.map(({ proof, claim }) => {
      const known = this.#uses.get(proof) ?? claim;
      this.#uses.set(proof, known);
      return known === claim;
    });
    if (this.losesAnswers-- > 0) throw new Error('no answer');
    return first;
  }
}

let stop: () => void = () => undefined;
afterEach(() => stop());

function start() {
  const ledger = new Ledger();
  const clock = { monotonic: () => performance.now() as MonotonicMillis };
  const claims = new ProofClaims({
    ...{ send: (asked) => ledger.send(asked), isAway: () => ledger.isAway, clock },
    ...{ random: systemRandom(), logger: silentLogger },
  });
  stop = () => claims.stop();
  const claim = (name: string, waitMs = 5_000): Promise<ClaimOutcome> =>
    new Promise((resolve) => claims.claim(name, (performance.now() + waitMs) as MonotonicMillis, resolve));
  return { ledger, claim };
}

describe('claims of proofs', () => {
  it('travel together, and one of two requests with one proof is the first', async () => {
    const { ledger, claim } = start();
    expect(await Promise.all([claim('a'), claim('b'), claim('a')])).toEqual(['first', 'first', 'replayed']);
    expect(ledger.calls).toHaveLength(1);
  });

  it('are repeated without an answer, as the same claims, so that the first stays the first', async () => {
    const { ledger, claim } = start();
    ledger.losesAnswers = 2;
    expect(await claim('a')).toBe('first');
    expect(ledger.calls).toHaveLength(3);
    expect(new Set(ledger.calls.flat().map((each) => each.claim)).size).toBe(1);
    expect(await claim('a')).toBe('replayed');
  });

  it('are late at their deadline, and away where the control plane is', async () => {
    const { ledger, claim } = start();
    ledger.losesAnswers = Number.POSITIVE_INFINITY;
    expect(await claim('a', 30)).toBe('late');
    ledger.isAway = true;
    expect(await claim('b')).toBe('away');
  });

  it('are bounded, in calls and together', async () => {
    const { ledger, claim } = start();
    const count = settleLimits.proofClaimsMax + 10;
    const outcomes = await Promise.all(Array.from({ length: count }, (_, i) => claim(`p${i}`)));
    expect(outcomes.filter((outcome) => outcome === 'late')).toHaveLength(10);
    expect(outcomes.filter((outcome) => outcome === 'first')).toHaveLength(settleLimits.proofClaimsMax);
    for (const call of ledger.calls) expect(call.length).toBeLessThanOrEqual(limits.proofClaimsPerCallMax);
  });
});
