import { beforeAll, describe, expect, it } from 'vitest';
import { trimDecisionCounts } from '../../control-plane/statistics/read-statistics.ts';
import { dayMs, hourMs, minuteMs, type UnixMillis } from '../../shared/model/time.ts';
import { silentLogger } from '../../shared/runtime/logger.ts';
import { packageVersion } from '../../shared/runtime/package-version.ts';
import type { DecisionTimes } from '../../shared/wire/sync/decision-times.ts';
import { renderSidecarAgent, syncVersion } from '../../shared/wire/sync/sync.ts';
import { ControlPlaneClient } from '../../sidecar/replica/control-plane-client.ts';
import { type Reply, startOwnApi } from '../support/service/api.ts';
import { expectError } from '../support/service/expect-error.ts';
import { useApi } from '../support/service/use-api.ts';

const api = useApi(startOwnApi);
beforeAll(() => api.stopClock());

interface Bucket {
  readonly starts_at: string;
  readonly counts: readonly {
    readonly decision: string;
    readonly reason: string | null;
    readonly count: number;
  }[];
}
const decide = async (
  gateId: string,
  token: string,
  times: number,
  permission = 'orders:create',
  key?: string,
) => {
  for (let n = 0; n < times; n++) {
    const body = { passport: token, request: { permission_key: permission } };
    const reply = await api.call({
      url: `/v1/gates/${gateId}/check`,
      body,
      ...(key === undefined ? {} : { key }),
    });
    expect(reply.status).toBe(200);
  }
};
const read = (query: string, key?: string): Promise<Reply> =>
  api.call({ url: `/v1/statistics/decisions?${query}`, ...(key === undefined ? {} : { key }) });
const inAll = (reply: Reply) => (reply.body.buckets as Bucket[]).flatMap(({ counts }) => counts);

describe('decisions by time', () => {
  it('are counted with their records, by outcome and reason, in minutes, hours and days', async () => {
    const { key } = await api.createAccount();
    const { jwt } = await api.issuePassport({}, key);
    const { gate_id } = await api.createGate({}, key);
    await decide(gate_id, jwt, 3, 'orders:create', key);
    await decide(gate_id, jwt, 2, 'orders:delete', key);
    api.advance(minuteMs);
    await decide(gate_id, jwt, 1, 'orders:create', key);
    const test = { passport_token: jwt, requested_action: 'orders:create' };
    await api.call({ url: `/v1/gates/${gate_id}/test`, key, body: test });

    const minutes = await read('step=minute', key);
    expect(minutes.body.buckets).toHaveLength(60);
    const [before, last] = minutes.body.buckets.slice(-2);
    expect(before.counts).toEqual([
      { decision: 'BLOCK', reason: 'permission_not_granted', count: 2 },
      { decision: 'PERMIT', reason: null, count: 3 },
    ]);
    expect(last.counts).toEqual([{ decision: 'PERMIT', reason: null, count: 1 }]);
    expect(Date.parse(last.starts_at) - Date.parse(before.starts_at)).toBe(minuteMs);
    for (const step of ['hour', 'day'])
      expect(inAll(await read(`step=${step}`, key)).reduce((sum, { count }) => sum + count, 0)).toBe(6);
    // As the records say it.
    const { body } = await api.call({ url: `/v1/attestations?gate_id=${gate_id}`, key });
    expect(body.attestations.filter((each: { test: boolean }) => !each.test)).toHaveLength(6);
  });

  it('are those of the own account, or of one named gate', async () => {
    const other = await api.createAccount();
    const { jwt } = await api.issuePassport();
    const mine = await api.createGate();
    const theirs = await api.createGate({ constraints: { trusted_issuers: ['*'] } }, other.key);
    await decide(mine.gate_id, jwt, 2);
    await decide(theirs.gate_id, jwt, 4, 'orders:create', other.key);
    const at = (gate: { gate_id: string }, key?: string) => read(`step=minute&gate_id=${gate.gate_id}`, key);
    expect(inAll(await at(mine))).toMatchObject([{ count: 2 }]);
    expect(inAll(await at(theirs))).toEqual([]);
    expect(inAll(await at(theirs, other.key))).toMatchObject([{ count: 4 }]);
    expect(inAll(await read('step=minute', other.key))).toMatchObject([{ count: 4 }]);
  });

  it('are in every bucket from one time to the other, up to a bound', async () => {
    const from = '2026-01-01T00:30:00Z';
    const span = (to: string, step: string) => read(`from=${from}&to=${to}&step=${step}`);
    const hours = await span('2026-01-01T03:00:00Z', 'hour');
    expect(hours.body).toMatchObject({
      starts_at: '2026-01-01T00:00:00.000Z',
      ends_at: '2026-01-01T03:00:00.000Z',
    });
    expect((hours.body.buckets as Bucket[]).map(({ starts_at }) => starts_at.slice(11, 16))).toEqual([
      '00:00',
      '01:00',
      '02:00',
    ]);
    expect((await span('2026-01-02T00:30:00Z', 'minute')).body.buckets).toHaveLength(1_440);
    expectError(await span('2026-01-02T00:31:00Z', 'minute'), 'invalid_request', 'from');
    expectError(await span('2026-01-01T00:30:00Z', 'minute'), 'invalid_request', 'from');
    expectError(await read('step=year'), 'invalid_request', 'step');
    expectError(await read('from=yesterday'), 'invalid_request', 'from');
  });

  it('are forgotten when they are old: minutes before hours', async () => {
    const count = async (step: string) =>
      (await api.deps.sql`SELECT FROM decision_counts WHERE step = ${step}`).count;
    const trimAfter = (ms: number) =>
      trimDecisionCounts(api.deps.sql, (api.deps.clock.now() + ms) as UnixMillis, 1);
    await trimAfter(0);
    const minutes = await count('minute');
    // More than one statement removes.
    expect(minutes).toBeGreaterThan(1);
    await trimAfter(2 * dayMs + hourMs);
    expect(await count('minute')).toBe(0);
    expect(await count('hour')).toBeGreaterThan(0);
    await trimAfter(400 * dayMs + hourMs);
    expect(await count('hour')).toBe(0);
  });
});

describe('sidecars', () => {
  it('are listed to their account, with what they said of themselves', async () => {
    const { key } = await api.createAccount();
    expect((await api.call({ url: '/v1/sidecars', key })).body).toMatchObject({ items: [], total: 0 });
    const connector = await api.createKey({ scopes: ['sidecars:connect'] }, key);
    const connect = (id: string | undefined, agent: string) =>
      api.call({
        url: '/v1/sync/connect',
        key: connector.key,
        headers: { 'user-agent': agent },
        body: { sync_version: syncVersion, now_ms: api.deps.clock.now(), sidecar_id: id },
      });
    const ids = [1, 2].map(() => api.deps.random.newId('side', api.deps.clock.now()));
    expect((await connect(ids[0], renderSidecarAgent('9.9.9'))).status).toBe(200);
    expect((await connect(ids[1], 'undici')).status).toBe(200);
    const { items } = (await api.call({ url: '/v1/sidecars', key })).body;
    const byId = new Map<string, { version: string | null }>(
      items.map((each: { sidecar_id: string; version: string | null }) => [each.sidecar_id, each]),
    );
    expect(byId.get(String(ids[0]))).toMatchObject({ version: '9.9.9', is_connected: true });
    expect(byId.get(String(ids[1]))).toMatchObject({ version: null, is_connected: true });
    expect((await api.call({ url: '/v1/sidecars' })).body.items).toEqual([]);
  });

  it('say their version when they connect, and how long their decisions took when they pull', async () => {
    const { key } = await api.createAccount();
    const connector = await api.createKey({ scopes: ['sidecars:connect'] }, key);
    const origin = await api.app.listen({ host: '127.0.0.1', port: 0 });
    const sidecarId = api.deps.random.newId('side', api.deps.clock.now());
    let times: DecisionTimes | null = null;
    const client = new ControlPlaneClient({
      origin,
      apiKey: connector.key,
      sidecarId,
      clock: api.deps.clock,
      decisionTimes: () => times,
      logger: silentLogger,
    });
    await client.connect();
    const seen = async () => (await api.call({ url: '/v1/sidecars', key })).body.items;
    expect(await seen()).toMatchObject([
      { sidecar_id: sidecarId, version: packageVersion, decision_times: null },
    ]);
    const start = { revision: 0, mark: '' };
    const pull = () => client.changes({ account: start, global: start }, 0, new AbortController().signal);
    await pull();
    expect(await seen()).toMatchObject([{ decision_times: null }]);
    times = { decisions: 1_000, p50Ms: 0.025, p99Ms: 2_500 };
    await pull();
    const said = { decisions: 1_000, p50_ms: 0.025, p99_ms: 2_500 };
    expect(await seen()).toMatchObject([{ decision_times: said }]);
    times = { decisions: 0, p50Ms: null, p99Ms: null };
    await pull();
    expect(await seen()).toMatchObject([{ decision_times: { decisions: 0, p50_ms: null, p99_ms: null } }]);
    await client.connect();
    await client.close();
    expect(await seen()).toMatchObject([{ decision_times: null }]);
  });
});
