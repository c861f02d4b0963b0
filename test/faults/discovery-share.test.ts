import { afterAll, beforeAll, expect, it } from 'vitest';
import { connect } from '../../control-plane/storage/connect.ts';
import { limits } from '../../shared/model/limits.ts';
import { type Api, startApi } from '../support/api.ts';
import { expectError } from '../support/expect-error.ts';
import { until } from '../support/until.ts';

let api: Api;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api?.close());

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
      const waiting = async () => {
        const [row] = await other<{ waiting: number }[]>`
          SELECT count(*) AS waiting FROM pg_stat_activity
          WHERE wait_event_type = 'Lock' AND datname = current_database() AND backend_type = 'client backend'`;
        return row?.waiting ?? 0;
      };
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
