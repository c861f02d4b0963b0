import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Database } from '../../control-plane/base/database.ts';
import { connect } from '../../control-plane/storage/connect.ts';
import { type Api, startApi } from '../support/api.ts';
import { goToNoon } from '../support/approvals.ts';
import { type LeaseHolder, leaseHolder, ofGate, wish } from '../support/lease-holder.ts';
import { type LoadAnswer, openLoad } from '../support/open-load.ts';
import { brokenRules } from '../support/sound-database.ts';
import { until } from '../support/until.ts';
import { holdersOf, untilServed, walletTree } from '../support/wallet-tree.ts';

let api: Api;
let other: Database;
beforeAll(async () => {
  api = await startApi();
  goToNoon(api);
  other = connect({ url: api.databaseUrl, connectionsMax: 2 });
});
afterAll(async () => {
  await other?.end({ timeout: 1 });
  await api?.close();
});

/** A holder makes one call at a time, and a refused one again under its number. */
interface Caller {
  readonly holder: LeaseHolder;
  seq: number;
  isCalling: boolean;
}

it('ten times the lease calls that a root serves are answered or refused, and none leases twice', async () => {
  const usd = 1_000_000;
  const tree = await walletTree(api, other, 1_000_000);
  const quiet = await api.createAccount();
  const quietHolder = await leaseHolder(api, { key: quiet.key });
  const constraints = { rate_limits: { requests_per_day: 1_000_000 } };
  const quietGate = (await api.createGate({ constraints }, quiet.key)).gate_id;
  const callers = (await holdersOf(api, api.adminKey, 288)).map(
    (holder): Caller => ({ holder, seq: 1, isCalling: false }),
  );
  let granted = 0;
  const call = async (): Promise<readonly LoadAnswer[]> => {
    const caller = callers.find(({ isCalling }) => !isCalling);
    if (caller === undefined) return [];
    caller.isCalling = true;
    const { status, body, headers } = await caller.holder.call(tree.asks(usd), [], { seq: caller.seq });
    caller.isCalling = false;
    // The next one is another holder's turn.
    callers.push(...callers.splice(callers.indexOf(caller), 1));
    if (status === 200) {
      caller.seq += 1;
      granted += body.grants[0].granted;
    }
    const word: string = status === 200 ? 'granted' : body.error.code;
    return [{ word, attestationId: null, hasRetryAfter: headers['retry-after'] !== undefined }];
  };
  let isOver = false;
  let quietCalls = 0;
  const beside = (async () => {
    while (!isOver) {
      const [seq, asks] = [quietCalls + 1, [wish(ofGate('gate_rate', quietGate), 'day', 1)]];
      const { body } = await untilServed(() => quietHolder.call(asks, [], { seq }));
      expect(body.grants).toMatchObject([{ granted: 1 }]);
      quietCalls = seq;
    }
  })();
  const load = await openLoad(call, { perSecond: 3_000, forMs: 2_000, openMax: callers.length });
  isOver = true;
  await beside;
  const told = JSON.stringify({ ...load.counts, quietCalls });
  // A machine that is quick enough serves them all.
  const { granted: served = 0, overloaded: _, ...others } = load.counts;
  expect(others, told).toEqual({});
  expect(served, told).toBeGreaterThan(0);
  expect(load.withoutRetryAfter).toBe(0);
  expect(quietCalls, told).toBeGreaterThan(0);
  // A call that was refused is served now, and the ledger has what was answered.
  for (const each of callers.slice(0, 10)) {
    const { body } = await untilServed(() => each.holder.call(tree.asks(usd), [], { seq: each.seq }));
    granted += body.grants[0].granted;
  }
  await until(async () => (await tree.leased()).every((units) => units === granted), {
    what: 'each wallet has given out what was answered',
  });
  expect(await brokenRules(api.deps.sql)).toEqual({});
});
