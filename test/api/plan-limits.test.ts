import type { FastifyInstance } from 'fastify';
import { Registry } from 'prom-client';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { build } from '../../control-plane/app.ts';
import type { Database } from '../../control-plane/base/database.ts';
import { connect } from '../../control-plane/storage/connect.ts';
import { apiKeyRandomBytes, makeApiKey } from '../../shared/crypto/api-key.ts';
import { parseTime, type UnixMillis } from '../../shared/model/time.ts';
import { systemClock } from '../../shared/runtime/clock.ts';
import type { Reply } from '../support/service/api.ts';
import { expectError } from '../support/service/expect-error.ts';
import { useApi } from '../support/service/use-api.ts';

/**
 * Two replicas of the control plane on one database, each with a pool of its own; their clock stands still
 * unless it is moved.
 */
const api = useApi();
let pools: readonly Database[];
let replicas: readonly FastifyInstance[];
let nowMs = parseTime('2096-02-29T23:57:12.345Z') as UnixMillis;

beforeAll(() => {
  const clock = { now: () => nowMs, monotonic: systemClock.monotonic };
  pools = [1, 2].map(() => connect({ url: api.databaseUrl, connectionsMax: 8 }));
  replicas = pools.map((sql) => build({ ...api.deps, sql, clock, metrics: new Registry() }));
});
afterAll(async () => {
  for (const app of replicas) await app.close();
  for (const sql of pools) await sql.end({ timeout: 1 });
});

interface Request {
  readonly method?: 'GET' | 'POST' | 'HEAD';
  readonly url?: string;
  readonly key: string;
  readonly body?: string;
  readonly replica?: number;
}

/** `GET /v1/gates` unless said otherwise. */
async function send({ method = 'GET', url = '/v1/gates', key, body, replica = 0 }: Request): Promise<Reply> {
  const app = replicas[replica] as FastifyInstance;
  const response = await app.inject({
    method,
    url,
    headers: {
      authorization: `Bearer ${key}`,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { payload: body }),
  });
  const answer = response.payload === '' ? '' : response.json();
  return { status: response.statusCode, body: answer, headers: response.headers };
}

type Shown = readonly [limit: number, remaining: number, reset: string] | null;

function shown({ headers }: Reply): Shown {
  const {
    'x-ratelimit-limit': limit,
    'x-ratelimit-remaining': remaining,
    'x-ratelimit-reset': reset,
  } = headers;
  if (limit === undefined && remaining === undefined && reset === undefined) return null;
  return [Number(limit), Number(remaining), new Date(Number(reset) * 1_000).toISOString()];
}

const minuteEnd = '2096-02-29T23:58:00.000Z';
const dayEnd = '2096-03-01T00:00:00.000Z';

const account = (limits: object | null, plan = 'enterprise') =>
  api.createAccount(limits === null ? { plan } : { plan, limits });
const update = (accountId: string, body: object) =>
  api.call({ method: 'PUT', url: `/v1/accounts/${accountId}`, key: api.operatorKey, body });

describe('the limits of each plan', () => {
  it.each([
    ['free', 30, 1_000],
    ['pro', 120, 10_000],
    ['teams', 300, 50_000],
  ])('%s: %i requests a minute, %i a day', async (plan, perMinute, perDay) => {
    const { accountId, key } = await account(null, plan);
    expect(shown(await send({ key }))).toEqual([perMinute, perMinute - 1, minuteEnd]);
    await api.deps.sql`
      UPDATE quota_windows SET leased = ${perDay - 2} WHERE counter = ${`plan:${accountId}`} AND window_name = 'day'`;
    expect(shown(await send({ key }))).toEqual([perDay, 1, dayEnd]);
    expect(shown(await send({ key }))).toEqual([perDay, 0, dayEnd]);
    expectError(await send({ key }), 'rate_limited');
  });

  it('enterprise: no limit and no headers unless set, for the minute, the day or both', async () => {
    const free = await account(null);
    expect(shown(await send({ key: free.key }))).toBeNull();
    expect(
      await api.deps.sql`SELECT 1 FROM quota_windows WHERE counter = ${`plan:${free.accountId}`}`,
    ).toHaveLength(0);
    const minute = await account({ requests_per_minute: 7 });
    expect(shown(await send({ key: minute.key }))).toEqual([7, 6, minuteEnd]);
    const day = await account({ requests_per_day: 7 });
    expect(shown(await send({ key: day.key }))).toEqual([7, 6, dayEnd]);
  });
});

describe('the headers', () => {
  it('describe the window with the fewest remaining; of two with as many, the one that lasts longer', async () => {
    const { key } = await account({ requests_per_minute: 3, requests_per_day: 5 });
    expect(shown(await send({ key }))).toEqual([3, 2, minuteEnd]);
    expect(shown(await send({ key }))).toEqual([3, 1, minuteEnd]);
    await inMinute('2096-02-29T23:58:59.999Z', async () => {
      expect(shown(await send({ key }))).toEqual([5, 2, dayEnd]);
      expect(shown(await send({ key }))).toEqual([5, 1, dayEnd]);
      expect(shown(await send({ key }))).toEqual([5, 0, dayEnd]);
      const refused = await send({ key });
      expectError(refused, 'rate_limited');
      expect(shown(refused)).toEqual([5, 0, dayEnd]);
      expect(refused.body.error.message).toContain('is used up (requests per day: 5).');
      expect(refused.headers['retry-after']).toBe('61');
    });
  });

  it('stand on every answer of a call with a valid key, also on 400, 403 and 404', async () => {
    const { key } = await account({ requests_per_minute: 20 });
    const { key: reader } = await api.createKey({ scopes: ['gates:read'] }, key);
    const calls: readonly (readonly [Request, number])[] = [
      [{ key, method: 'POST', body: '{"name":"Orders","trust_level":"L1"}' }, 201],
      [{ key, method: 'POST', body: '{"name":' }, 400],
      [{ key, method: 'POST', body: '{"name":"Orders"}' }, 400],
      [{ key, url: '/v1/gates?limit=x' }, 400],
      [{ key: reader, method: 'POST', body: '{}' }, 403],
      [{ key, url: '/v1/accounts' }, 403],
      [{ key, url: '/v1/gates/gate_x' }, 404],
      [{ key, method: 'HEAD' }, 200],
    ];
    for (const [index, [call, status]] of calls.entries()) {
      const reply = await send(call);
      expect(reply.status).toBe(status);
      expect(shown(reply)).toEqual([20, 19 - index, minuteEnd]);
    }
  });

  it('are absent where no key is needed, where none is valid, and where there is no such address', async () => {
    const { key, accountId } = await account({ requests_per_minute: 20 });
    const unknown = makeApiKey('live', api.deps.random.bytes(apiKeyRandomBytes));
    const others: readonly (readonly [Request, number])[] = [
      [{ key, url: '/livez' }, 200],
      [{ key, url: '/.well-known/jwks.json' }, 200],
      [{ key: unknown }, 401],
      [{ key, url: '/v1/nothing' }, 404],
    ];
    for (const [call, status] of others) {
      const reply = await send(call);
      expect(reply.status).toBe(status);
      expect(shown(reply)).toBeNull();
    }
    expect(await counted(accountId)).toEqual({});
  });
});

describe('429', () => {
  it('says when to come back, before the body is looked at, and takes nothing from any window', async () => {
    const { key, accountId } = await account({ requests_per_minute: 2, requests_per_day: 100 });
    await send({ key });
    await send({ key });
    for (const call of [
      { key },
      { key, method: 'POST', body: '{"broken' },
      { key, url: '/v1/accounts' },
    ] as const) {
      const refused = await send(call);
      expectError(refused, 'rate_limited');
      expect(refused.body.error.message).toBe(
        'The plan limit of this account is used up (requests per minute: 2).',
      );
      expect(shown(refused)).toEqual([2, 0, minuteEnd]);
      // 47.655 s are left: rounded up, so that a client that waits so long is not refused again.
      expect(refused.headers['retry-after']).toBe('48');
    }
    expect(await counted(accountId)).toEqual({ minute: 2, day: 2 });
    expect((await send({ key, replica: 1 })).status).toBe(429);
  });

  it('ends with the window, to the millisecond', async () => {
    const { key } = await account({ requests_per_minute: 1, requests_per_day: 2 });
    expect((await send({ key })).status).toBe(200);
    await inMinute('2096-02-29T23:57:59.999Z', async () => {
      const refused = await send({ key });
      expect(refused.status).toBe(429);
      expect(refused.headers['retry-after']).toBe('1');
    });
    await inMinute('2096-02-29T23:58:00.000Z', async () => expect((await send({ key })).status).toBe(200));
    await inMinute('2096-02-29T23:59:00.000Z', async () => {
      expect((await send({ key })).headers['retry-after']).toBe('60');
    });
    await inMinute('2096-03-01T00:00:00.000Z', async () => {
      expect(shown(await send({ key }))).toEqual([1, 0, '2096-03-01T00:01:00.000Z']);
    });
  });
});

describe('what counts', () => {
  it('covers the whole account: all its keys of both modes together, and no other account', async () => {
    const { key } = await account({ requests_per_minute: 3 });
    const second = await api.createKey({ scopes: ['gates:read'] }, key);
    const test = await api.createKey({ scopes: ['gates:read'], mode: 'test' }, key);
    const neighbour = await account({ requests_per_minute: 3 });
    for (const each of [key, second.key, test.key]) expect((await send({ key: each })).status).toBe(200);
    for (const each of [key, second.key, test.key]) expect((await send({ key: each })).status).toBe(429);
    expect(shown(await send({ key: neighbour.key }))).toEqual([3, 2, minuteEnd]);
  });

  it('is no call of a sidecar, which also works when the account has used up its limit', async () => {
    const { key, accountId } = await account({ requests_per_minute: 1 });
    const sidecar = await api.createKey({ scopes: ['sidecars:connect'] }, key);
    const snapshot = () => send({ key: sidecar.key, url: '/v1/sync/snapshot' });
    const free = await snapshot();
    expect(free.status).toBe(200);
    expect(shown(free)).toBeNull();
    expect(await counted(accountId)).toEqual({});
    await send({ key });
    expect((await send({ key })).status).toBe(429);
    expect((await snapshot()).status).toBe(200);
    // The key of a sidecar is counted where it asks for something else.
    expectError(await send({ key: sidecar.key }), 'rate_limited');
  });

  it('refuses a suspended account with its reason, and leaves its windows unchanged', async () => {
    const { key, accountId } = await account({ requests_per_minute: 1 });
    await update(accountId, { status: 'suspended' });
    for (let time = 0; time < 3; time++) {
      const refused = await send({ key });
      expectError(refused, 'account_suspended');
      expect(shown(refused)).toBeNull();
    }
    await update(accountId, { status: 'active' });
    expect(shown(await send({ key }))).toEqual([1, 0, minuteEnd]);
  });
});

it('a change of plan or limits binds at once; lowered below the use, nothing remains and nothing is negative', async () => {
  const { key, accountId } = await account({ requests_per_minute: 10 });
  for (let time = 0; time < 5; time++) await send({ key });
  await update(accountId, { limits: { requests_per_minute: 3 } });
  const refused = await send({ key, replica: 1 });
  expectError(refused, 'rate_limited');
  expect(shown(refused)).toEqual([3, 0, minuteEnd]);
  expect(await counted(accountId)).toEqual({ minute: 5 });
  await update(accountId, { limits: { requests_per_minute: 6 } });
  expect(shown(await send({ key }))).toEqual([6, 0, minuteEnd]);
  await update(accountId, { plan: 'free' });
  expect(shown(await send({ key }))).toEqual([30, 23, minuteEnd]);
  await update(accountId, { plan: 'enterprise' });
  expect(shown(await send({ key }))).toBeNull();
});

it.each([
  ['minute', { requests_per_minute: 31, requests_per_day: 1_000 }, 31],
  ['day', { requests_per_minute: 1_000, requests_per_day: 41 }, 41],
])(
  '80 requests at once on two replicas admit exactly the limit where the %s is tighter, and take no more',
  async (_what, limits, most) => {
    const { key, accountId } = await account(limits);
    const replies = await Promise.all(
      Array.from({ length: 80 }, (_, index) => send({ key, replica: index % 2 })),
    );
    const [admitted, refused] = [200, 429].map((is) => replies.filter(({ status }) => status === is));
    expect([admitted?.length, refused?.length]).toEqual([most, 80 - most]);
    expect(await counted(accountId)).toEqual({ minute: most, day: most });
    expect(new Set(admitted?.map((reply) => shown(reply)?.[1])).size).toBe(most);
  },
);

/** Does the work at that time of the replicas' clock, and sets it back. */
async function inMinute(time: string, work: () => Promise<unknown>): Promise<void> {
  const beforeMs = nowMs;
  nowMs = parseTime(time) as UnixMillis;
  try {
    await work();
  } finally {
    nowMs = beforeMs;
  }
}

/** What the ledger holds for the account at the usual time of these tests. */
async function counted(accountId: string): Promise<Record<string, number>> {
  const rows = await api.deps.sql<{ name: string; leased: number }[]>`
    SELECT window_name AS name, leased FROM quota_windows
    WHERE counter = ${`plan:${accountId}`} AND starts_at_ms <= ${nowMs} AND ends_at_ms > ${nowMs}`;
  return Object.fromEntries(rows.map(({ name, leased }) => [name, leased]));
}
