import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { operationsRoutes } from '../../control-plane/operations/routes.ts';
import { type Api, startApi } from '../support/api.ts';
import { keptLog } from '../support/kept-log.ts';
import { startTestSidecar } from '../support/sidecar.ts';
import { until } from '../support/until.ts';

let api: Api;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api?.close());

describe('a row that cannot be used', () => {
  it('costs its gate alone, which is named in log, /readyz and /metrics', async () => {
    const bad = await api.createGate();
    const good = await api.createGate();
    const { jwt } = (
      await api.call({
        method: 'POST',
        url: '/v1/passports',
        body: { agent_id: 'agent', permissions: ['a:b'] },
      })
    ).body;
    await api.deps.sql`UPDATE gates SET constraints = '{"moon": 1}' WHERE gate_id = ${bad.id}`;
    const log = keptLog();
    const sidecar = await startTestSidecar({ api, logger: log });
    await sidecar.caughtUp();
    const decide = (id: string) => sidecar.check(id, jwt, { permission_key: 'a:b' });
    expect((await decide(good.id)).body.decision).toBe('PERMIT');
    expect((await decide(bad.id)).status).toBe(404);

    const { body, status } = await sidecar.call({ path: '/readyz' });
    expect(status).toBe(200);
    expect(body.state).toMatchObject({
      bad_row_count: 1,
      bad_rows: [{ of: 'gate', id: bad.id, reason: expect.stringContaining('moon') }],
    });
    expect((await sidecar.call({ path: '/metrics' })).body).toContain('agent_trust_sidecar_bad_rows 1');
    const told = log.lines.filter(({ message }) => message.startsWith('cannot be used'));
    expect(told).toMatchObject([{ level: 'error', fields: { of: 'gate', id: bad.id } }]);

    // It is put right by a change, like any other.
    await api.deps.sql`UPDATE gates SET constraints = '{}' WHERE gate_id = ${bad.id}`;
    await api.call({ method: 'PUT', url: `/v1/gates/${bad.id}`, body: { name: 'right again' } });
    await sidecar.caughtUp();
    expect((await decide(bad.id)).body.decision).toBe('PERMIT');
    expect((await sidecar.call({ path: '/readyz' })).body.state.bad_rows).toEqual([]);
    await sidecar.close();
    sidecar.removeFolder();
  });
});

describe('/readyz', () => {
  it('is asked a hundred times and logs each change once', async () => {
    const log = keptLog();
    const { default: Fastify } = await import('fastify');
    const app = Fastify();
    const draining = { isDraining: false };
    await app.register(operationsRoutes({ ...api.deps, draining, logger: log }));
    const probe = () => app.inject('/readyz');
    const probeOften = () => Promise.all(Array.from({ length: 50 }, probe));
    await probeOften();
    expect(log.lines).toEqual([]);
    draining.isDraining = true;
    await probeOften();
    await probeOften();
    draining.isDraining = false;
    await probeOften();
    await until(async () => (await probe()).statusCode === 200, { what: 'it is ready' });
    expect(log.lines.map(({ message }) => message)).toEqual(['not ready', 'ready again']);
    await app.close();
  });
});
