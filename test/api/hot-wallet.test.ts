import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import type { Database } from '../../control-plane/base/database.ts';
import { serveLeaseCall } from '../../control-plane/quota/serve-lease-call.ts';
import { connect } from '../../control-plane/storage/connect.ts';
import { databaseFailure } from '../../control-plane/storage/database-away.ts';
import { must } from '../../shared/errors/assert.ts';
import type { AccountId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import { windowAt } from '../../shared/quota/window.ts';
import { type Api, type Reply, startApi } from '../support/api.ts';
import { goToNoon } from '../support/approvals.ts';
import { expectError } from '../support/expect-error.ts';
import { type LeaseHolder, ofGate, wish } from '../support/lease-holder.ts';
import { secondControlPlane } from '../support/second-control-plane.ts';
import { startTestSidecar, type TestSidecar } from '../support/sidecar.ts';
import { brokenRules } from '../support/sound-database.ts';
import { standingStill } from '../support/standing-still.ts';
import { expectSoundStore } from '../support/test-sidecar.ts';
import { until } from '../support/until.ts';
import { holdersOf, untilServed, walletTree } from '../support/wallet-tree.ts';

/** One root wallet on which everything draws, while its row of the ledger is locked by somebody else. */
let api: Api;
let other: Database;
let sidecar: TestSidecar;
beforeAll(async () => {
  api = await startApi();
  goToNoon(api);
  other = connect({ url: api.databaseUrl, connectionsMax: 2 });
  sidecar = await startTestSidecar({ api });
});
afterAll(async () => {
  await sidecar?.close();
  sidecar?.removeFolder();
  await other?.end({ timeout: 1 });
  await api?.close();
});
afterEach(async () => {
  expect(await brokenRules(api.deps.sql)).toEqual({});
  await expectSoundStore(api);
});

const usd = 1_000_000;

it('a crowd at a held root is refused in time, takes its share of connections, and is served afterwards', async () => {
  const tree = await walletTree(api, other, 1_000);
  const quiet = await api.createAccount();
  const quietGate = (
    await api.createGate({ constraints: { rate_limits: { requests_per_day: 9 } } }, quiet.key)
  ).gate_id;
  const quietPassport = await api.issuePassport({}, quiet.key);
  const [quietHolder] = await holdersOf(api, quiet.key, 1);
  const crowd = await holdersOf(api, api.adminKey, 10 * limits.leaseCallsPerAccountMax);
  const ask = (holder: LeaseHolder) => () => holder.call(tree.asks(usd), [], { seq: 1 });

  const mostWaiting = await tree.whileHeld(async (isWaitedFor) => {
    const calls = Promise.all(crowd.map((holder) => ask(holder)()));
    await until(isWaitedFor, { what: 'a call waits for the root' });
    // Beside it everybody else goes on: leases and checks of others, and what its own account asks for.
    const granted = await quietHolder?.lease([wish(ofGate('gate_rate', quietGate), 'day', 2)]);
    expect(granted).toMatchObject([{ granted: 2 }]);
    const checked = await api.call({
      url: `/v1/gates/${quietGate}/check`,
      key: quiet.key,
      body: { passport: quietPassport.jwt, request: { permission_key: 'orders:create' } },
    });
    expect(checked.body.decision).toBe('PERMIT');
    expect((await api.call({ url: '/v1/gates' })).status).toBe(200);
    for (const reply of await calls) {
      expectError(reply, 'overloaded');
      expect(reply.headers['retry-after']).toBe('1');
    }
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

it('a call that comes twice, or whose answer was late, leases once', async () => {
  const tree = await walletTree(api, other, 100);
  const [holder] = await holdersOf(api, api.adminKey, 1);
  if (holder === undefined) throw new Error('there is one');
  const ask = (seq: number) => holder.call(tree.asks(usd), [], { seq });
  await tree.whileHeld(async (isWaitedFor) => {
    const copies = [ask(1), ask(1), ask(1)];
    await until(isWaitedFor, { what: 'a copy waits for the root' });
    for (const reply of await Promise.all(copies)) expectError(reply, 'overloaded');
  });
  const copies = await Promise.all([1, 1, 1].map((seq) => untilServed(() => ask(seq))));
  for (const { body } of copies) {
    expect(body.grants.map(({ left_ms, ...grant }: { left_ms: number }) => grant)).toEqual(
      copies[0]?.body.grants.map(({ left_ms, ...grant }: { left_ms: number }) => grant),
    );
  }
  expect(await tree.leased()).toEqual([usd, usd, usd, usd]);
  expect((await untilServed(() => ask(2))).status).toBe(200);
  expect(await tree.leased()).toEqual([2 * usd, 2 * usd, 2 * usd, 2 * usd]);
  // A copy of the first that was on its way all the time moves nothing any more.
  expect((await untilServed(() => ask(1))).body.error.code).toBe('holder_unknown');
  expect(await tree.leased()).toEqual([2 * usd, 2 * usd, 2 * usd, 2 * usd]);
});

it('a sidecar that lies gets no more than fits, and gives back no more than it has', async () => {
  const tree = await walletTree(api, other, 10);
  const [liar, honest] = await holdersOf(api, api.adminKey, 2);
  if (liar === undefined || honest === undefined) throw new Error('there are two');
  const grantsOf = async (call: Promise<readonly { readonly granted: number }[]>) =>
    (await call).map(({ granted }) => granted);
  expect(await grantsOf(honest.lease(tree.asks(4 * usd)))).toEqual([4, 4, 4, 4].map((each) => each * usd));
  // All or nothing, and as much as there is.
  expect(await grantsOf(liar.lease(tree.asks(2 ** 52)))).toEqual([0, 0, 0, 0]);
  const greedy = tree.asks(2 ** 52).map((ask) => ({ ...ask, units_min: 0 }));
  expect(await grantsOf(liar.lease(greedy))).toEqual([6, 6, 6, 6].map((each) => each * usd));
  const startsAtMs = windowAt('day', api.deps.clock.now()).startsAtMs;
  const back = tree.asks(5 * usd).map(({ units_min, units_needed, units_ahead, ...counter }) => ({
    ...counter,
    starts_at_ms: startsAtMs,
    units: units_needed,
  }));
  await liar.lease([], back);
  expect(await tree.leased()).toEqual([5, 5, 5, 5].map((each) => each * usd));
  await liar.lease([], back);
  await liar.lease([], back);
  expect(await tree.leased()).toEqual([4, 4, 4, 4].map((each) => each * usd));
});

it('a crowd of refunds at a held root is refused in time, takes its share of connections, and comes through afterwards', async () => {
  const tree = await walletTree(api, other, 100);
  const quiet = await api.createAccount();
  const { gate_id: quietGate } = await api.createGate({}, quiet.key);
  const quietPassport = await api.issuePassport({}, quiet.key);
  const check = (gateId: string, jwt: string, more: object, key?: string) =>
    api.call({
      url: `/v1/gates/${gateId}/check`,
      ...(key === undefined ? {} : { key }),
      body: { passport: jwt, request: { permission_key: 'orders:create', ...more } },
    });
  const { gate_id: gateId } = await api.createGate();
  const permits: string[] = [];
  // More than the connections of the whole control plane.
  for (let n = 0; n <= limits.databaseConnectionsMax; n++) {
    const { body } = await check(gateId, tree.passport.jwt, { amount: 1 });
    expect(body.decision).toBe('PERMIT');
    permits.push(body.attestation_id);
  }
  const refund = (id: string) => () => api.call({ url: `/v1/attestations/${id}/refund`, body: {} });
  const mostWaiting = await tree.whileHeld(async (isWaitedFor) => {
    const refunds = Promise.all(permits.map((id) => refund(id)()));
    await until(isWaitedFor, { what: 'a refund waits for the root' });
    const checked = await check(quietGate, quietPassport.jwt, {}, quiet.key);
    expect(checked.body.decision).toBe('PERMIT');
    for (const reply of await refunds) {
      expectError(reply, 'overloaded');
      expect(reply.headers['retry-after']).toBe('1');
    }
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
    const reply = await asked;
    expectError(reply, 'overloaded');
    expect(reply.headers['retry-after']).toBe('1');
  });
  expect((await untilServed(check)).body.decision).toBe('PERMIT');
  await until(async () => (await tree.leased()).every((units) => units === usd), {
    what: 'nothing but the one dollar is given out',
  });
});

it('a decision is of the moment in which it began, and may take what came back after that', async () => {
  const tree = await walletTree(api, other, 10);
  const { gate_id: gateId } = await api.createGate();
  const url = `/v1/gates/${gateId}/check`;
  const asking = ({ jwt }: Reply['body'], more = {}) => ({
    passport: jwt,
    request: { permission_key: 'orders:create', amount: 8, ...more },
  });
  const [first, second] = [tree.passport, await api.issuePassport({ wallet_id: tree.passport.wallet_id })];
  const { body: held } = await api.call({ url, body: asking(first, { hold: { expires_in_s: 600 } }) });
  expect(held.decision).toBe('PERMIT');
  const still = standingStill(other, ['FROM quota_windows'], { isBefore: true });
  const slow = await secondControlPlane(api, still.sql);
  const late = slow.call(url, asking(second));
  await until(() => still.stood.length === 1, { what: 'it has its moment' });
  const settled = `/v1/attestations/${held.attestation_id}/outcome`;
  expect((await api.call({ url: settled, body: { outcome: 'served', amount: 2 } })).status).toBe(200);
  still.goOn();
  const { body: permit } = await late;
  expect(permit.decision).toBe('PERMIT');
  const [[decided], [charged]] = await Promise.all([
    api.deps.sql<{ atMs: number }[]>`
      SELECT timestamp_ms AS "atMs" FROM attestations WHERE attestation_id = ${permit.attestation_id}`,
    api.deps.sql<{ atMs: number }[]>`
      SELECT timestamp_ms AS "atMs" FROM attestations WHERE refers_to = ${held.attestation_id}`,
  ]);
  expect(must(decided, 'it is on record').atMs).toBeLessThanOrEqual(must(charged, 'it is settled').atMs);
  await slow.close();
});
