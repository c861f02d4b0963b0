import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Database } from '../../control-plane/base/database.ts';
import { serveLeaseCall } from '../../control-plane/quota/serve-lease-call.ts';
import { connect } from '../../control-plane/storage/connect.ts';
import { databaseFailure } from '../../control-plane/storage/database-away.ts';
import type { AccountId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import { until } from '../support/base/until.ts';
import { standingStill } from '../support/database/standing-still.ts';
import { type Reply, startOwnApi } from '../support/service/api.ts';
import { goToNoon } from '../support/service/approvals.ts';
import { expectError } from '../support/service/expect-error.ts';
import { type LeaseHolder, ofGate, wish } from '../support/service/lease-holder.ts';
import { brokenRules } from '../support/service/sound-database.ts';
import { expectSoundStore } from '../support/service/test-sidecar.ts';
import { useApi, useSidecar } from '../support/service/use-api.ts';
import { holdersOf, untilServed, walletTree } from '../support/service/wallet-tree.ts';

/** One root wallet on which everything draws, while its row of the ledger is locked by somebody else. */
const api = useApi(startOwnApi);
let other: Database;
beforeAll(() => {
  goToNoon(api);
  other = connect({ url: api.databaseUrl, connectionsMax: 2 });
});
const sidecar = useSidecar(() => ({ api }));
afterAll(async () => {
  expect(await brokenRules(api.deps.sql)).toEqual({});
  await expectSoundStore(api);
  await other?.end({ timeout: 1 });
});

const usd = 1_000_000;
const expectOverloaded = (reply: Reply) => {
  expectError(reply, 'overloaded');
  expect(reply.headers['retry-after']).toBe('1');
};
/** A gate and a passport of an account that has no part in it. */
async function bystander(constraints: object = {}) {
  const { key } = await api.createAccount();
  const { gate_id: gateId } = await api.createGate({ constraints }, key);
  const { jwt: passport } = await api.issuePassport({}, key);
  const body = { passport, request: { permission_key: 'orders:create' } };
  const ask = async () => (await api.call({ url: `/v1/gates/${gateId}/check`, key, body })).body.decision;
  return { key, gateId, ask };
}

it('a crowd at a held root is refused in time, takes its share of connections, and is served afterwards', async () => {
  const tree = await walletTree(api, other, 1_000);
  const quiet = await bystander({ rate_limits: { requests_per_day: 9 } });
  const [quietHolder] = await holdersOf(api, quiet.key, 1);
  const crowd = await holdersOf(api, api.adminKey, 3 * limits.leaseCallsPerAccountMax);
  const ask = (holder: LeaseHolder) => () => holder.call(tree.asks(usd), [], { seq: 1 });

  const mostWaiting = await tree.whileHeld(async (isWaitedFor) => {
    const calls = Promise.all(crowd.map((holder) => ask(holder)()));
    await until(isWaitedFor, { what: 'a call waits for the root' });
    // Beside it everybody else goes on: leases and checks of others, and what its own account asks for.
    const granted = await quietHolder?.lease([wish(ofGate('gate_rate', quiet.gateId), 'day', 2)]);
    expect(granted).toMatchObject([{ granted: 2 }]);
    expect(await quiet.ask()).toBe('PERMIT');
    expect((await api.call({ url: '/v1/gates' })).status).toBe(200);
    for (const reply of await calls) expectOverloaded(reply);
  });
  expect(mostWaiting).toBeLessThanOrEqual(limits.leaseCallsPerAccountMax);
  expect(await tree.leased()).toEqual([0, 0, 0, 0]);

  for (const { status, body } of await Promise.all(crowd.map((holder) => untilServed(ask(holder))))) {
    expect(status).toBe(200);
    expect(body.grants.map(({ granted }: { granted: number }) => granted)).toEqual([usd, usd, usd, usd]);
  }
  const all = crowd.length * usd;
  expect(await tree.leased()).toEqual([all, all, all, all]);
});

it('a control plane that stands still at the root holds up the others for a moment, and has leased nothing', async () => {
  const tree = await walletTree(api, other, 10);
  const [stopped, quick] = await holdersOf(api, api.adminKey, 2);
  if (stopped === undefined || quick === undefined) throw new Error('there are two');
  const { sql } = api.deps;
  // It stands still once it has the windows.
  const still = standingStill(sql, ['UPDATE quota_windows']);
  const { sidecarId, connectionId } = stopped.sidecar;
  const call = {
    ...{ sidecar_id: sidecarId, connection_id: connectionId, holder: stopped.holder, seq: 1 },
    ...{ returns: [], asks: tree.asks(7 * usd) },
  };
  const [{ accountId } = { accountId: '' }] = await sql<{ accountId: string }[]>`
    SELECT account_id AS "accountId" FROM sidecars WHERE sidecar_id = ${sidecarId}`;
  const late = serveLeaseCall(still.sql, accountId as AccountId, call, api.deps.clock.now()).then(
    () => null,
    (error: unknown) => databaseFailure(error),
  );
  await until(() => still.stood.length === 1, { what: 'it has locked the root' });
  // All of the money, as soon as PostgreSQL has ended the session of the one that stands still.
  const served = await untilServed(() => quick.call(tree.asks(10 * usd), [], { seq: 1 }));
  expect(served.body.grants).toMatchObject(tree.asks(0).map(() => ({ granted: 10 * usd })));
  still.goOn();
  expect(await late).not.toBeNull();
  expect(await tree.leased()).toEqual(tree.asks(0).map(() => 10 * usd));
});

it('a crowd of refunds at a held root is refused in time, takes its share of connections, and comes through afterwards', async () => {
  const tree = await walletTree(api, other, 100);
  const quiet = await bystander();
  const { gate_id: gateId } = await api.createGate();
  const permits: string[] = [];
  // More than the connections of the whole control plane.
  for (let n = 0; n <= limits.databaseConnectionsMax; n++) {
    const request = { permission_key: 'orders:create', amount: 1 };
    const body = { passport: tree.passport.jwt, request };
    const { body: permit } = await api.call({ url: `/v1/gates/${gateId}/check`, body });
    expect(permit.decision).toBe('PERMIT');
    permits.push(permit.attestation_id);
  }
  const refund = (id: string) => () => api.call({ url: `/v1/attestations/${id}/refund`, body: {} });
  const mostWaiting = await tree.whileHeld(async (isWaitedFor) => {
    const refunds = Promise.all(permits.map((id) => refund(id)()));
    await until(isWaitedFor, { what: 'a refund waits for the root' });
    expect(await quiet.ask()).toBe('PERMIT');
    for (const reply of await refunds) expectOverloaded(reply);
  });
  expect(mostWaiting).toBeLessThanOrEqual(limits.decisionsPerAccountMax);
  for (const { status, body } of await Promise.all(permits.map((id) => untilServed(refund(id))))) {
    expect(status).toBe(201);
    expect(body).toMatchObject({ counts_usd: 0, refunded_usd: 1 });
  }
  for (const id of permits) expect((await refund(id)()).status).toBe(409);
});

it('checks wait no longer than they may while the root is held, and are permitted afterwards', async () => {
  const tree = await walletTree(api, other, 100);
  const { gate_id: gateId } = await api.createGate();
  await sidecar.caughtUp();
  const check = () =>
    sidecar.check(gateId, tree.passport.jwt, { permission_key: 'orders:create', amount: 1 });
  await tree.whileHeld(async (isWaitedFor) => {
    const asked = check();
    await until(isWaitedFor, { what: 'the lease call waits for the root' });
    expectOverloaded(await asked);
  });
  expect((await untilServed(check)).body.decision).toBe('PERMIT');
  await until(async () => (await tree.leased()).every((units) => units === usd), {
    what: 'nothing but the one dollar is given out',
  });
});
