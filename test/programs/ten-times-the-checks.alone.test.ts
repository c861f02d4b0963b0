import { afterAll, beforeAll, expect, it } from 'vitest';
import { decideRequest } from '../../control-plane/decisions/decide-request.ts';
import { tokenVerifier } from '../../control-plane/decisions/token-verifier.ts';
import { must } from '../../shared/errors/assert.ts';
import type { GateId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import { parseRequestFacts } from '../../shared/wire/api/check.ts';
import { heapBytesWhenOld } from '../support/base/heap-bytes.ts';
import { type AskLoad, closedLoad, medianOf, openLoad, permitsPerSecond } from '../support/base/open-load.ts';
import { operatorCaller } from '../support/data/caller.ts';
import { type Api, startOwnApi } from '../support/service/api.ts';

let api: Api;
beforeAll(async () => {
  api = await startOwnApi();
});
afterAll(() => api?.close());

const clients = 200;
const isRefused = ({ counts }: { counts: Readonly<Record<string, number>> }) => 'overloaded' in counts;

/** Without HTTP: a client that asks ten times as often takes more of a small machine than all of the rest. */
async function asker(): Promise<AskLoad> {
  const caller = await operatorCaller(api.deps);
  const gateId = (await api.createGate()).gate_id as GateId;
  const verify = tokenVerifier(api.deps);
  const issued = await Promise.all(Array.from({ length: 24 }, () => api.issuePassport()));
  const shown = issued.map(({ jwt }) => ({ token: jwt, verdict: verify(jwt) }));
  const asked = { permission_key: 'orders:create' };
  const request = parseRequestFacts(asked);
  let count = 0;
  return async () => {
    const passport = must(shown[count++ % shown.length], 'a passport was issued');
    try {
      const answer = await decideRequest(api.deps, {
        caller,
        gateId,
        ...passport,
        asked,
        request,
        isTest: false,
      });
      const word = answer.kind === 'decided' ? answer.decision.outcome : answer.kind;
      const attestationId = answer.kind === 'decided' ? answer.attestationId : null;
      return [{ word, attestationId, hasRetryAfter: false }];
    } catch (error) {
      const { code = String(error), retryAfterS = null } = error as { code?: string; retryAfterS?: number };
      return [{ word: code, attestationId: null, hasRetryAfter: retryAfterS !== null }];
    }
  };
}

it('checks at a control plane: ten times the load is refused in time, and leaves nothing behind', async () => {
  const ask = await asker();
  for (let warm = await closedLoad(ask, { clients, forMs: 500 }); isRefused(warm); )
    warm = await closedLoad(ask, { clients, forMs: 500 });
  const usual = await closedLoad(ask, { clients, forMs: 3_000 });
  const bytesBefore = heapBytesWhenOld();
  const crowd = await openLoad(ask, {
    perSecond: 10 * permitsPerSecond(usual),
    forMs: 4_000,
    openMax: 50_000,
  });
  const after = await closedLoad(ask, { clients, forMs: 1_000 });
  const bytesGrown = heapBytesWhenOld() - bytesBefore;
  const told = JSON.stringify({
    ...{ usual: usual.counts, crowd: crowd.counts, after: after.counts, bytesGrown },
    refusedMs: medianOf(crowd.times['overloaded']),
    permittedMs: medianOf(crowd.times['PERMIT']),
    tookMs: [usual, crowd, after].map(({ tookMs }) => Math.round(tookMs)),
  });
  expect(Object.keys(crowd.counts).sort(), told).toEqual(['PERMIT', 'overloaded']);
  // How many are permitted meanwhile says nothing: what asks and what is refused take the same thread.
  expect(crowd.withoutRetryAfter, told).toBe(0);
  // Most are refused for lack of a place, not at their deadline. What they take is the lag of this thread.
  expect(medianOf(crowd.times['overloaded']), told).toBeLessThan(limits.decisionDeadlineMs / 2);
  expect(Math.max(...(crowd.times['PERMIT'] ?? [])), told).toBeLessThan(2 * limits.decisionDeadlineMs);
  // It was over when the last one was answered, within its deadline.
  expect(Object.keys(after.counts), told).toEqual(['PERMIT']);
  expect(permitsPerSecond(after), told).toBeGreaterThan(permitsPerSecond(usual) / 2);
  expect(bytesGrown, told).toBeLessThan(32 * 1_024 * 1_024);
  // Each PERMIT that was answered is on record, and nothing else is.
  const answered = new Set([...usual.permitIds, ...crowd.permitIds, ...after.permitIds]);
  const [row] = await api.deps.sql<{ known: number; voided: number }[]>`
    SELECT count(*) FILTER (WHERE resolution IS NULL) AS known,
      count(*) FILTER (WHERE resolution = 'voided') AS voided
    FROM attestations WHERE attestation_id = ANY(${[...answered]}::text[])`;
  expect(row).toEqual({ known: answered.size, voided: 0 });
}, 300_000);
