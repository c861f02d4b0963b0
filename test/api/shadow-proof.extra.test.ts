import { beforeAll, describe, expect, it } from 'vitest';
import { startBacktests } from '../../control-plane/backtests/keep-backtests.ts';
import { renderTime, secondMs, type UnixMillis } from '../../shared/model/time.ts';
import { type Chance, chance as chanceOf } from '../support/base/chance.ts';
import { runs } from '../support/base/runs.ts';
import { until, untilAnswer } from '../support/base/until.ts';
import { type Reply, startOwnApi } from '../support/service/api.ts';
import { goToNoon } from '../support/service/approvals.ts';
import { isPassing } from '../support/service/sidecar-pair.ts';
import { useApi, useSidecar } from '../support/service/use-api.ts';

/**
 * A policy is tried in three ways on the same traffic over two sidecars: as a shadow, as a backtest of the
 * records, and in earnest once it is promoted. They agree, windows included.
 */
const api = useApi(startOwnApi);
const sidecars = [1, 2].map(() => useSidecar(() => ({ api, quotaWaitMs: 1_000 })));
beforeAll(() => goToNoon(api));
const caughtUp = async () => {
  for (const sidecar of sidecars) await sidecar.caughtUp();
};

const domains = ['a.example', 'b.example', 'c.example'];

/** What records say all of: personal data and proofs are undecided in a backtest, by design. */
function anyPolicy(chance: Chance): { constraints: Record<string, object>; trust_level?: string } {
  const constraints: Record<string, object> = {};
  const maybe = (share: number) => chance.happens(share);
  const spend = {
    ...(maybe(0.5) && { per_transaction_usd: chance.pick([10, 25, 40]) }),
    ...(maybe(0.6) && { daily_usd: chance.pick([60, 150, 300]) }),
    per: chance.pick(['gate', 'passport']),
  };
  if (Object.keys(spend).length > 1) constraints['spend_limits'] = spend;
  if (maybe(0.5))
    constraints['rate_limits'] = {
      requests_per_day: chance.pick([5, 9]),
      per: chance.pick(['gate', 'passport']),
    };
  if (maybe(0.4)) constraints['allowed_domains'] = domains.slice(0, chance.pick([1, 2]));
  if (maybe(0.3)) constraints['approvals'] = { above_usd: chance.pick([15, 30]) };
  const isHigher = Object.keys(constraints).length === 0 || maybe(0.2);
  return { constraints, ...(isHigher && { trust_level: 'L2' }) };
}

interface Ask {
  readonly at: number;
  readonly passport: string;
  readonly request: object;
}

interface Answer {
  readonly decision: string;
  readonly reason: string | null;
}

async function playAll(gateId: string, asks: readonly Ask[]): Promise<readonly Answer[]> {
  const answers: Answer[] = [];
  for (const { at, passport, request } of asks) {
    // Both have the time of the control plane: the order of their records is that of the requests.
    api.advance(secondMs);
    await caughtUp();
    const { body } = await untilAnswer(
      async (): Promise<Reply> => (await sidecars[at]?.check(gateId, passport, request)) as Reply,
      (reply) => !isPassing(reply),
      { what: 'an answer that stays' },
    );
    answers.push({ decision: body.decision, reason: body.reason ?? null });
  }
  return answers;
}

/** How the second answers differ from the first, as a report counts it. */
function differences(first: readonly Answer[], second: readonly Answer[]): Readonly<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const [place, { decision: from, reason: was }] of first.entries()) {
    const { decision: to = '', reason = null } = second[place] ?? {};
    if (from === to) continue;
    const name = `${from} ${to} ${to === 'PERMIT' ? was : reason}`;
    counts[name] = (counts[name] ?? 0) + 1;
  }
  return counts;
}

const countsOf = ({ different }: Reply['body']): Readonly<Record<string, number>> =>
  Object.fromEntries(
    different.map(({ from, to, reason, count }: Record<string, unknown>) => [
      `${from} ${to} ${reason}`,
      count,
    ]),
  );

async function backtested(gateId: string, body: object): Promise<Reply['body']> {
  const begun = await api.call({ url: `/v1/gates/${gateId}/backtest`, body });
  expect(begun.status, JSON.stringify(begun.body)).toBe(202);
  const loop = startBacktests(api.deps);
  try {
    const ended = await untilAnswer(
      () => api.call({ url: `/v1/backtests/${begun.body.backtest_id}` }),
      (reply) => reply.body.status !== 'running',
      { what: 'the backtest ends' },
    );
    return ended.body.report;
  } finally {
    await loop.stop();
  }
}

const requestCount = 18;

async function tryPolicy(seed: number) {
  const chance = chanceOf(seed);
  const patch = anyPolicy(chance);
  const { gate_id: gateId } = await api.createGate();
  const agents = [
    await api.issuePassport({ trust_tier: 'L1' }),
    await api.issuePassport({ trust_tier: 'L2' }),
  ];
  const asks = Array.from({ length: requestCount }, (_, nonce): Ask => {
    const agent = chance.pick([0, 1]);
    const amount = chance.pick([0, 5, 12, 20, 35, 50]);
    const request = { permission_key: 'orders:create', amount, domain: chance.pick(domains), nonce };
    return { at: nonce % 2, passport: agents[agent]?.jwt, request };
  });
  const since = renderTime(api.deps.clock.now() as UnixMillis);
  const put = await api.call({ method: 'PUT', url: `/v1/gates/${gateId}/shadow`, body: patch });
  expect(put.status, JSON.stringify(put.body)).toBe(200);
  const live = await playAll(gateId, asks);
  const url = `/v1/gates/${gateId}/shadow/report`;
  await until(async () => (await api.call({ url })).body.decisions === asks.length, { what: 'all records' });
  const shadow = (await api.call({ url })).body;
  const backtest = await backtested(gateId, { ...patch, since });
  const promote = { method: 'POST', url: `/v1/gates/${gateId}/shadow/promote`, headers: { 'if-match': '*' } };
  expect((await api.call(promote)).status).toBe(200);
  await caughtUp();
  const again = await playAll(gateId, asks);
  return { patch, live, shadow, backtest, again };
}

describe('a policy that is tried', () => {
  it.each(Array.from({ length: runs({ short: 3, long: 10 }) }, (_, place) => place + 1))(
    'decides as it was said to: policy %i',
    async (seed) => {
      const { patch, live, shadow, backtest, again } = await tryPolicy(seed);
      const of = JSON.stringify(patch);
      expect(shadow.undecided, of).toEqual([]);
      const { from: _1, until: _2, over_time: _3, ...said } = shadow;
      expect(backtest, of).toMatchObject(said);
      const observed = differences(live, again);
      expect(countsOf(shadow), of).toEqual(observed);
      // One fault planted in what was observed is found.
      const planted = again.map((each, place) =>
        place === 0
          ? { ...each, decision: each.decision === 'BLOCK' ? 'PERMIT' : 'BLOCK', reason: null }
          : each,
      );
      expect(countsOf(shadow), of).not.toEqual(differences(live, planted));
    },
  );
});
