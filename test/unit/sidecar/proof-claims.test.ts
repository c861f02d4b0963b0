import { afterEach, describe, expect, it } from 'vitest';
import { idDigest } from '../../../shared/crypto/id-digest.ts';
import { limits } from '../../../shared/model/limits.ts';
import type { MonotonicMillis, UnixMillis } from '../../../shared/model/time.ts';
import { silentLogger } from '../../../shared/runtime/logger.ts';
import { systemRandom } from '../../../shared/runtime/random.ts';
import type { ProofClaim } from '../../../shared/wire/sync/proof-claim.ts';
import { settleLimits } from '../../../sidecar/settle/limits.ts';
import { type ClaimOutcome, ProofClaims } from '../../../sidecar/settle/proof-claims.ts';
import { until } from '../../support/base/until.ts';

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

let stop: () => Promise<void> = async () => undefined;
afterEach(() => stop());

function start() {
  const ledger = new Ledger();
  const clock = {
    monotonic: () => performance.now() as MonotonicMillis,
    now: () => performance.now() as UnixMillis,
  };
  const claims = new ProofClaims({
    ...{ send: (asked) => ledger.send(asked), isAway: () => ledger.isAway, clock },
    ...{ random: systemRandom(), logger: silentLogger },
  });
  stop = () => claims.stop();
  /** At a gate that asks nothing. */
  const use = (name: string, leftMs = 60_000) => claims.use(name, (clock.now() + leftMs) as UnixMillis);
  const claim = (name: string, waitMs = 5_000, used = use(name)): Promise<ClaimOutcome> =>
    new Promise((resolve) => claims.claim(used, (performance.now() + waitMs) as MonotonicMillis, resolve));
  return { ledger, claim, use };
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

describe('proofs that were used without a question', () => {
  const sent = (ledger: Ledger) => ledger.calls.flat().length;

  it('reach the ledger within a second, in few calls, and once', async () => {
    const { ledger, use } = start();
    const count = limits.proofClaimsPerCallMax + 10;
    for (let i = 0; i < count; i++) use(`p${i}`);
    await until(() => sent(ledger) === count, { what: 'all of them', timeoutMs: 1_000 });
    expect(ledger.calls).toHaveLength(2);
    expect(new Set(ledger.calls.flat().map(({ proof }) => proof)).size).toBe(count);
  });

  it('travel with the next question', async () => {
    const { ledger, claim, use } = start();
    use('a');
    expect(await claim('b')).toBe('first');
    expect(ledger.calls.map((call) => call.length)).toEqual([2]);
    expect(await claim('a')).toBe('replayed');
  });

  it('are the same use, where their own request asks for it after all', async () => {
    const { ledger, claim, use } = start();
    const used = use('a');
    expect(await claim('b')).toBe('first');
    expect(await claim('a', 5_000, used)).toBe('first');
    expect(new Set(ledger.calls.flat().map(({ claim }) => claim)).size).toBe(2);
  });

  it('are sent again until the ledger has them, unless they are over, and when the sidecar stops', async () => {
    const { ledger, use } = start();
    ledger.losesAnswers = 1;
    use('lost');
    await until(() => ledger.calls.length === 2, { what: 'a second call' });
    expect(ledger.calls[1]).toEqual(ledger.calls[0]);
    use('over', -1);
    use('last');
    await stop();
    expect(ledger.calls.slice(2).flat()).toEqual([{ proof: idDigest('last'), claim: expect.any(String) }]);
  });
});
