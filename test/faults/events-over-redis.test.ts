import type { AddressInfo } from 'node:net';
import { Registry } from 'prom-client';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { build } from '../../control-plane/app.ts';
import { publishHintsOf } from '../../control-plane/events/note-hints.ts';
import { hintPublisher } from '../../control-plane/events/publish-hints.ts';
import { connect } from '../../control-plane/storage/connect.ts';
import { redisBus } from '../../shared/bus/redis.ts';
import { silentLogger } from '../../shared/runtime/logger.ts';
import { type Api, type Reply, startApi } from '../support/api.ts';
import { EventReader } from '../support/event-reader.ts';
import { type TestRedis, testRedis } from '../support/redis.ts';
import { until } from '../support/until.ts';

let redis: TestRedis;
let api: Api;
/** Two control planes, which have a database and a Redis in common and nothing else. */
let here: Awaited<ReturnType<typeof controlPlane>>;
let there: Awaited<ReturnType<typeof controlPlane>>;
const readers: EventReader[] = [];

beforeAll(async () => {
  [redis, api] = await Promise.all([testRedis(), startApi()]);
  here = await controlPlane('here');
  there = await controlPlane('there');
});
afterAll(async () => {
  for (const reader of readers) reader.leave();
  await Promise.all([here?.close(), there?.close()]);
  await api?.close();
  await redis?.stop();
});

async function controlPlane(replicaId: string) {
  const bus = redisBus({ url: redis.url, logger: silentLogger });
  const sql = connect({ url: api.databaseUrl });
  publishHintsOf(sql, hintPublisher(bus));
  const app = build({ ...api.deps, sql, bus, replicaId, metrics: new Registry() });
  await app.listen({ host: '127.0.0.1', port: 0 });
  const origin = `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`;
  return {
    call: async (method: string, path: string, body: object, key = api.adminKey): Promise<Reply['body']> => {
      const answer = await fetch(`${origin}/v1${path}`, {
        method,
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: JSON.stringify(body),
      });
      expect(answer.status, path).toBeLessThan(300);
      return answer.json();
    },
    watch: async (key = api.adminKey) => {
      const reader = await EventReader.open(origin, { authorization: `Bearer ${key}` });
      readers.push(reader);
      await until(() => reader.comments > 0, { what: 'the begin of the stream' });
      return reader;
    },
    close: async () => {
      await app.close();
      await bus.close();
      await sql.end();
    },
  };
}

const gate = { name: 'Orders', trust_level: 'L1' };

it('what changes at one control plane reaches the streams of the other, and no other account', async () => {
  const other = await api.createAccount();
  const [reader, stranger] = await Promise.all([there.watch(), there.watch(other.key)]);
  const { gate_id } = await here.call('POST', '/gates', gate);
  await reader.has('gate', gate_id);
  const { passport_id } = await here.call('POST', '/passports', {
    agent_id: 'seen-over-redis',
    permissions: [],
  });
  await reader.has('passport', passport_id);
  const own = await here.call('POST', '/gates', gate, other.key);
  await stranger.has('gate', own.gate_id);
  expect(stranger.events.map(({ id }) => id)).toEqual([own.gate_id]);
});

it('a stream ends at one control plane when its key is deleted at the other', async () => {
  const { keyId, key } = await api.createKey({ scopes: ['gates:read'] });
  const reader = await there.watch(key);
  await here.call('DELETE', `/api-keys/${keyId}`, {});
  expect(await reader.ended()).toBe('access_ended');
});

it('streams are told to read again when Redis is back, and go on', async () => {
  const reader = await there.watch();
  await redis.stop();
  const missed = await here.call('POST', '/gates', gate);
  await redis.restart();
  await reader.has('reset');
  expect(reader.of('gate').map(({ id }) => id)).not.toContain(missed.gate_id);
  // The publisher may be connected again later than the reader, and what it says meanwhile is lost.
  await until(
    async () => {
      const { gate_id } = await here.call('POST', '/gates', gate);
      return until(() => reader.of('gate').some(({ id }) => id === gate_id), {
        what: 'it',
        timeoutMs: 1_000,
      }).then(
        () => true,
        () => false,
      );
    },
    { what: 'a change to arrive again' },
  );
});
