import { afterAll, beforeAll, expect, it } from 'vitest';
import { connect } from '../../control-plane/storage/connect.ts';
import { limits } from '../../shared/model/limits.ts';
import { type Api, startApi } from '../support/api.ts';
import { expectError } from '../support/expect-error.ts';
import { shortened } from '../support/spooled-record.ts';
import { connectSidecar, expectSoundStore, recordOf } from '../support/test-sidecar.ts';
import { until, untilAnswer } from '../support/until.ts';

let api: Api;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api?.close());

it('batches of one account that all wait hold its own share, and others ship and are served beside them', async () => {
  const busy = await api.createAccount();
  const quiet = await api.createAccount();
  const worldOf = async (key: string) => {
    const passport = await api.issuePassport({}, key);
    const gateId = (await api.createGate({}, key)).gate_id;
    return { passport, gateId, make: () => recordOf(api, { gateId, passport }) };
  };
  const [busyWorld, quietWorld] = [await worldOf(busy.key), await worldOf(quiet.key)];
  const room = limits.ingestsPerAccountMax + limits.ingestsWaitingPerAccountMax;
  const [first, ...others] = await Promise.all(
    Array.from({ length: room + 1 }, () => connectSidecar(api, { key: busy.key })),
  );
  if (first === undefined) throw new Error('there is a sidecar');
  expect((await first.send(1, [busyWorld.make()])).status).toBe(200);
  const quietSidecar = await connectSidecar(api, { key: quiet.key });

  const other = connect({ url: api.databaseUrl, connectionsMax: 2 });
  const sent: ReturnType<typeof first.send>[] = [];
  const waiting = async () => {
    const [row] = await other<{ waiting: number }[]>`
      SELECT count(*) AS waiting FROM pg_stat_activity
      WHERE wait_event_type = 'Lock' AND datname = current_database() AND backend_type = 'client backend'`;
    return row?.waiting ?? 0;
  };
  try {
    await other.begin(async (tx) => {
      await tx`SELECT FROM chains WHERE chain_id = ${busyWorld.passport.passport_id} FOR UPDATE`;
      for (const each of others) sent.push(each.send(1, [busyWorld.make()]));
      // Those behind it that add to the same chain wait outside of the database.
      await until(async () => (await waiting()) === 1, { what: 'the first batch waits for the chain' });
      expect((await quietSidecar.send(1, [quietWorld.make()])).status).toBe(200);
      expect((await api.call({ url: '/v1/gates', key: busy.key })).status).toBe(200);
      expectError(await first.send(2, [busyWorld.make()]), 'overloaded');
    });
    for (const reply of await Promise.all(sent)) expect(reply.status).toBe(200);
    expect(await waiting()).toBe(0);
    // What was turned away comes again, as a shipper does.
    expect((await first.send(2, [busyWorld.make()])).status).toBe(200);
  } finally {
    await Promise.allSettled(sent);
    await other.end();
  }
  await expectSoundStore(api);
});

it('accepts full batches of more sidecars than may wait, each once, when refused ones are retried', async () => {
  const account = await api.createAccount();
  const gateId = (await api.createGate({}, account.key)).gate_id;
  const senders = limits.ingestsPerAccountMax + limits.ingestsWaitingPerAccountMax + 5;
  let turnedAway = 0;
  const shipFull = async () => {
    const passport = await api.issuePassport({}, account.key);
    const sidecar = await connectSidecar(api, { key: account.key });
    const records = Array.from({ length: limits.ingestRecordsMax }, () =>
      recordOf(api, { gateId, passport }),
    );
    const batch = shortened(records);
    const send = async () => {
      const { status } = await sidecar.send(1, batch);
      if (status === 503) turnedAway += 1;
      return status;
    };
    return () => untilAnswer(send, (status) => status !== 503, { what: 'the batch is taken' });
  };
  const ships = await Promise.all(Array.from({ length: senders }, shipFull));
  // All come while none is stored, however fast the database is.
  const other = connect({ url: api.databaseUrl, connectionsMax: 1 });
  let shipped: Promise<readonly number[]> = Promise.resolve([]);
  try {
    await other.begin(async (tx) => {
      await tx`LOCK TABLE chains IN EXCLUSIVE MODE`;
      shipped = Promise.all(ships.map((ship) => ship()));
      await until(() => turnedAway > 0, { what: 'more than may wait' });
    });
    expect(await shipped).toEqual(Array.from({ length: senders }, () => 200));
  } finally {
    await Promise.allSettled([shipped]);
    await other.end();
  }
  const chains = await api.deps.sql<{ sequence: number; count: number }[]>`
    SELECT chains.sequence, count(DISTINCT attestation_id) AS count
    FROM records JOIN chains ON chains.number = records.chain
    WHERE chains.account_id = ${account.accountId} GROUP BY chains.number, chains.sequence`;
  const full = { sequence: limits.ingestRecordsMax, count: limits.ingestRecordsMax };
  expect(chains).toEqual(Array.from({ length: senders }, () => full));
});
