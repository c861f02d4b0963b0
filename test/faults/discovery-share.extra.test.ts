import { expect, it } from 'vitest';
import { connect } from '../../control-plane/storage/connect.ts';
import { limits } from '../../shared/model/limits.ts';
import { until } from '../support/base/until.ts';
import { waitingForLocks } from '../support/database/postgres.ts';
import { startOwnApi } from '../support/service/api.ts';
import { expectError } from '../support/service/expect-error.ts';
import { useApi } from '../support/service/use-api.ts';

const api = useApi(startOwnApi);

it('searches that the database does not answer hold their own share, and tenants are served beside them', async () => {
  const gate = await api.createGate({ catalog: { permissions: [{ key: 'orders:create' }] } });
  const search = () => api.call({ url: '/v1/discover?capability=orders&offset=1000', key: null });
  const room = limits.discoveriesAtOnceMax + limits.discoveriesWaitingMax;
  const other = connect({ url: api.databaseUrl, connectionsMax: 2 });
  const searches: ReturnType<typeof search>[] = [];
  try {
    await other.begin(async (tx) => {
      await tx`LOCK TABLE discovery_entries IN ACCESS EXCLUSIVE MODE`;
      for (let i = 0; i < room; i++) searches.push(search());
      const waiting = () => waitingForLocks(other);
      await until(async () => (await waiting()) === limits.discoveriesAtOnceMax, {
        what: 'as many searches in the database as there may be',
      });
      // One more is refused at once, and every tenant still has the other connections.
      const [refused, ...served] = await Promise.all([
        search(),
        api.call({ url: `/v1/gates/${gate.gate_id}` }),
        api.call({ url: '/v1/passports' }),
        api.call({ url: '/v1/gates', body: { name: 'made meanwhile', trust_level: 'L1' } }),
      ]);
      expectError(refused, 'overloaded');
      expect(served.map(({ status }) => status)).toEqual([200, 200, 201]);
      expect(await waiting()).toBe(limits.discoveriesAtOnceMax);
    });
    for (const answer of await Promise.all(searches)) expect(answer.status).toBe(200);
    expect((await search()).status).toBe(200);
  } finally {
    await Promise.allSettled(searches);
    await other.end();
  }
});
