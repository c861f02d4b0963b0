import { expect, it } from 'vitest';
import { connect } from '../../control-plane/storage/connect.ts';
import { limits } from '../../shared/model/limits.ts';
import { until } from '../support/base/until.ts';
import { waitingForLocks } from '../support/database/postgres.ts';
import { startOwnApi } from '../support/service/api.ts';
import { expectError } from '../support/service/expect-error.ts';
import { connectSidecar, expectSoundStore, recordOf } from '../support/service/test-sidecar.ts';
import { useApi } from '../support/service/use-api.ts';

const api = useApi(startOwnApi);

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
  const waiting = () => waitingForLocks(other);
  try {
    await other.begin(async (tx) => {
      await tx`SELECT FROM chains WHERE chain_id = ${busyWorld.passport.passport_id} FOR UPDATE`;
      for (const each of others) sent.push(each.send(1, [busyWorld.make()]));
      // Those after it that add to the same chain wait outside of the database.
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
