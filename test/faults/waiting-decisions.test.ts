import { expect, it } from 'vitest';
import { connect } from '../../control-plane/storage/connect.ts';
import { limits } from '../../shared/model/limits.ts';
import { until } from '../support/base/until.ts';
import { waitingForLocks } from '../support/database/postgres.ts';
import { startOwnApi } from '../support/service/api.ts';
import { useApi } from '../support/service/use-api.ts';

const api = useApi(startOwnApi);

it('checks that all wait for one chain leave connections for everything else', async () => {
  const gate = await api.createGate();
  const passport = await api.issuePassport();
  const body = { passport: passport.jwt, request: { permission_key: 'orders:create' } };
  const check = () => api.call({ url: `/v1/gates/${gate.gate_id}/check`, body });
  expect((await check()).body.decision).toBe('PERMIT');

  const other = connect({ url: api.databaseUrl, connectionsMax: 1 });
  const waiting: ReturnType<typeof check>[] = [];
  try {
    await other.begin(async (tx) => {
      await tx`SELECT FROM chains WHERE chain_id = ${passport.passport_id} FOR UPDATE`;
      for (let i = 0; i < 2 * limits.databaseConnectionsMax; i++) waiting.push(check());
      await until(async () => (await countWaiting()) === limits.decisionsPerAccountMax, {
        what: 'as many batches that wait for the chain as one account may have',
      });
      expect((await api.call({ url: '/v1/gates' })).status).toBe(200);
      expect((await api.call({ url: `/v1/gates/${gate.gate_id}` })).status).toBe(200);
    });
    const words = (await Promise.all(waiting)).map(({ body }) => body.decision ?? body.error.code);
    // On a crowded machine their deadline passes before their batch begins, at worst that of all.
    expect(words.filter((word) => word !== 'PERMIT' && word !== 'overloaded')).toEqual([]);
    await until(async () => (await check()).body.decision === 'PERMIT', {
      what: 'a check that is permitted',
    });
  } finally {
    await Promise.allSettled(waiting);
    await other.end();
  }
});

/** Asked on a connection of its own: the pool under test may have none. */
async function countWaiting(): Promise<number> {
  const sql = connect({ url: api.databaseUrl, connectionsMax: 1 });
  return waitingForLocks(sql).finally(() => sql.end());
}
