import type { ServerResponse } from 'node:http';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { guardedFetch } from '../../control-plane/outbox/guarded-fetch.ts';
import { outboxLimits } from '../../control-plane/outbox/limits.ts';
import { readQueues } from '../../control-plane/outbox/queues.ts';
import {
  deliveryQueues,
  lockDeliveries,
  recordDeliveries,
} from '../../control-plane/webhooks/delivery-queue.ts';
import { listDeliveries } from '../../control-plane/webhooks/delivery-store.ts';
import { webhooksLimits } from '../../control-plane/webhooks/limits.ts';
import { trimDeliveries } from '../../control-plane/webhooks/trim-deliveries.ts';
import { must } from '../../shared/errors/assert.ts';
import type { WebhookId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import { dayMs, hourMs, type MonotonicMillis, minuteMs } from '../../shared/model/time.ts';
import { attemptPausesMs } from '../../shared/model/webhook.ts';
import { packageVersion } from '../../shared/runtime/package-version.ts';
import { keptLog } from '../support/base/kept-log.ts';
import { expectWithin, timed } from '../support/base/time-promise.ts';
import { until } from '../support/base/until.ts';
import { type Receiver, startReceiver } from '../support/peers/receiver.ts';
import { type Api, type Reply, startOwnApi } from '../support/service/api.ts';
import {
  arrived,
  deliverer,
  type Endpoint,
  madeUp,
  subscribe,
  verified,
  verifiedAll,
} from '../support/service/webhooks.ts';

/**
 * Deliveries to real receivers. No time passes but what a test lets pass: an attempt is due when the test
 * says so, however slow the machine is.
 */
const log = keptLog();

let api: Api;
let key: string;
let receiver: Receiver;
/** Another one, which always works, and an endpoint of it that nothing happens to. */
let control: Receiver;
let controlHook: Endpoint;
let running: { stop(): Promise<void> };

beforeAll(async () => {
  api = await startOwnApi({ outbound: { allowPrivate: true }, logger: log });
  // Events are due by the clock of the database, which runs on: it must not overtake the one that stands.
  api.advance(hourMs / 2);
  api.stopClock();
});
afterAll(() => api.close());
beforeEach(async () => {
  key = (await api.createAccount()).key;
  receiver = await startReceiver();
  control = await startReceiver();
  controlHook = await subscribe(api, { url: control.url, events: ['passport.denied'] }, key);
  running = deliverer(api);
});
afterEach(async () => {
  // What hangs there would be waited for.
  await receiver.close();
  await running.stop();
  await control.close();
});

const events = ['gate.created'];
const hookAt = (at: Receiver): Promise<Endpoint> => subscribe(api, { url: at.url, events }, key);
const cause = () => api.createGate({}, key);
const fail = (status: number, headers = {}) =>
  receiver.answer((response) => response.writeHead(status, headers).end('no'));
const works = () => receiver.answer((response) => response.writeHead(204).end());
const only = async (hook: Endpoint): Promise<Reply['body']> => {
  const deliveries = await hook.deliveries();
  expect(deliveries).toHaveLength(1);
  return deliveries[0];
};
/** Waits until so many attempts of the only delivery are written down. */
const attempted = async (hook: Endpoint, count: number): Promise<Reply['body']> => {
  await until(async () => (await only(hook)).attempt_count >= count, { what: `attempt ${count}` });
  return only(hook);
};
const msUntil = (time: string): number => Date.parse(time) - api.deps.clock.now();
/** All queues were looked at with the time of now: what was due was claimed. */
const looked = async (): Promise<void> => {
  for (let count = control.received.length + 1, last = count + 1; count <= last; count++) {
    await api.call({ url: `${controlHook.url}/test`, body: {}, key });
    await arrived(control, count);
  }
};

describe('a delivery', () => {
  it('arrives as the contract has it, and verifies', async () => {
    const hook = await hookAt(receiver);
    const gate = await cause();
    await arrived(receiver, 1);
    const [one] = receiver.received;
    expect(one?.headers).toMatchObject({
      'content-type': 'application/json',
      'webhook-id': expect.stringMatching(/^evt_/),
      'user-agent': `agent-trust/${packageVersion} (+webhooks)`,
    });
    expect(verifiedAll(receiver, hook.secret)).toEqual([
      {
        id: one?.headers['webhook-id'],
        event: 'gate.created',
        timestamp: gate.created_at,
        data: { gate_id: gate.gate_id, name: gate.name, trust_level: 'L1', gate_url: gate.gate_url },
      },
    ]);
    expect(one?.body).toBe(JSON.stringify(JSON.parse(one?.body ?? '')));
    expect(await attempted(hook, 1)).toMatchObject({
      event_id: one?.headers['webhook-id'],
      status: 'succeeded',
      attempt_count: 1,
      attempts: [{ attempt: 1, status_code: 204, error: null, response: '' }],
      next_attempt_at: null,
    });
  });

  it('follows the schedule, under one id and freshly signed, and is given up after the last attempt', async () => {
    fail(500);
    const hook = await hookAt(receiver);
    await cause();
    for (const [index, pauseMs] of attemptPausesMs.slice(1).entries()) {
      const delivery = await attempted(hook, index + 1);
      expect(delivery).toMatchObject({ status: 'pending', attempt_count: index + 1 });
      const waitMs = Date.parse(delivery.next_attempt_at) - Date.parse(delivery.attempts[0].started_at);
      expect(waitMs).toBeGreaterThanOrEqual(pauseMs * 0.9);
      expect(waitMs).toBeLessThanOrEqual(pauseMs * 1.1);
      // Nothing before its time.
      api.advance(msUntil(delivery.next_attempt_at) - 1);
      await looked();
      expect(receiver.received).toHaveLength(index + 1);
      api.advance(1);
    }
    await attempted(hook, attemptPausesMs.length);
    expect(await only(hook)).toMatchObject({ status: 'failed', next_attempt_at: null });
    const all = verifiedAll(receiver, hook.secret);
    expect(all).toHaveLength(10);
    expect(new Set(all.map(({ id }) => id)).size).toBe(1);
    const times = receiver.received.map(({ headers }) => Number(headers['webhook-timestamp']));
    expect(times).toEqual(times.toSorted((one, other) => one - other));
    expect(new Set(times).size).toBe(10);
  });

  it.each([301, 308, 400, 500])('answered with %i has failed, and nothing is followed', async (status) => {
    fail(status, { location: control.url });
    const hook = await hookAt(receiver);
    await cause();
    expect(await attempted(hook, 1)).toMatchObject({
      status: 'pending',
      attempts: [{ status_code: status, response: 'no' }],
    });
    expect(control.received).toEqual([]);
  });

  it('to a port that is closed has failed, with a reason', async () => {
    await receiver.close();
    const hook = await hookAt(receiver);
    await cause();
    const [attempt] = (await attempted(hook, 1)).attempts;
    expect(attempt).toMatchObject({ status_code: null, error: 'ECONNREFUSED', response: null });
  });

  it('comes after as long as Retry-After says, and so does everything else for an endpoint that is busy', async () => {
    fail(503, { 'retry-after': '1800' });
    const hook = await hookAt(receiver);
    await cause();
    const delivery = await attempted(hook, 1);
    expect(msUntil(delivery.next_attempt_at)).toBeGreaterThan(29 * minuteMs);
    expect(msUntil(delivery.next_attempt_at)).toBeLessThanOrEqual(30 * minuteMs);
    works();
    await cause();
    api.advance(25 * minuteMs);
    await looked();
    expect(receiver.received).toHaveLength(1);
    api.advance(6 * minuteMs);
    await arrived(receiver, 3);
  });

  it('does not wait longer than a bound for a Retry-After that makes no sense', async () => {
    fail(429, { 'retry-after': '999999' });
    const hook = await hookAt(receiver);
    await cause();
    const delivery = await attempted(hook, 1);
    expect(msUntil(delivery.next_attempt_at)).toBeLessThanOrEqual(outboxLimits.retryAfterMsMax);
    expect(msUntil(delivery.next_attempt_at)).toBeGreaterThan(outboxLimits.retryAfterMsMax - minuteMs);
  });

  it('shows the first KiB of the answer, without what looks like a secret and without NUL', async () => {
    const secret = 'sk_live_4eC39HqLyjWDarjtT1zdp7dc';
    receiver.answer((response) =>
      response.writeHead(500).end(`failed: {"api_key": "hunter2"} ${secret}\u0000 ${'.'.repeat(5_000)}`),
    );
    const hook = await hookAt(receiver);
    await cause();
    const [{ response }] = (await attempted(hook, 1)).attempts;
    expect(response).toMatch(/^failed: \{"api_key": "\[redacted\]"\} \[redacted\]/);
    expect(response.length).toBeLessThanOrEqual(1_024);
    for (const hidden of ['hunter2', secret, '\u0000']) expect(response).not.toContain(hidden);
  });
});

describe('a secret that is rolled', () => {
  it('signs beside all before it until the overlap of each ends, as when the answer was lost and it is rolled again', async () => {
    const hook = await hookAt(receiver);
    const roll = async (overlap_s: number) =>
      (await api.call({ url: `${hook.url}/roll-secret`, body: { overlap_s }, key })).body.secret;
    const lost = await roll(120);
    const secret = await roll(60);
    const signers = async (count: number) => {
      await cause();
      await arrived(receiver, count);
      const last = must(receiver.received[count - 1], 'it has arrived');
      expect(String(last.headers['webhook-signature']).split(' ')).toHaveLength(4 - count);
      return [hook.secret, lost, secret].map((each) => {
        try {
          return verified(last, each).event;
        } catch {
          return null;
        }
      });
    };
    expect(await signers(1)).toEqual(['gate.created', 'gate.created', 'gate.created']);
    api.advance(minuteMs);
    expect(await signers(2)).toEqual(['gate.created', null, 'gate.created']);
    api.advance(minuteMs);
    expect(await signers(3)).toEqual([null, null, 'gate.created']);
  });

  it('signs alone at once without an overlap', async () => {
    const hook = await hookAt(receiver);
    await api.call({ url: `${hook.url}/roll-secret`, body: { overlap_s: 60 }, key });
    const { body } = await api.call({ url: `${hook.url}/roll-secret`, body: {}, key });
    await cause();
    await arrived(receiver, 1);
    expect(verifiedAll(receiver, body.secret)).toHaveLength(1);
    expect(String(receiver.received[0]?.headers['webhook-signature']).split(' ')).toHaveLength(1);
  });
});

describe('an endpoint', () => {
  it('that answers 410 is disabled at once; what waits for it goes out when it is enabled', async () => {
    fail(410);
    const hook = await hookAt(receiver);
    await cause();
    expect(await attempted(hook, 1)).toMatchObject({ status: 'failed', next_attempt_at: null });
    await until(async () => (await hook.get()).status === 'disabled', { what: 'the end of the endpoint' });
    expect((await hook.get()).disabled_reason).toBe('gone');
    works();
    await api.call({ method: 'PUT', url: hook.url, body: { status: 'enabled' }, key });
    await cause();
    await arrived(receiver, 2);
    const first = must((await hook.deliveries('?status=failed'))[0], 'the first has failed');
    await api.call({ method: 'POST', url: `${hook.url}/deliveries/${first.delivery_id}/resend`, key });
    await arrived(receiver, 3);
    expect(verifiedAll(receiver, hook.secret).map(({ id }) => id)).toContain(first.event_id);
  });

  it('that its owner disables finishes attempts in flight, and gets the rest when it is enabled', async () => {
    fail(500);
    const hook = await hookAt(receiver);
    await cause();
    await attempted(hook, 1);
    await api.call({ method: 'PUT', url: hook.url, body: { status: 'disabled' }, key });
    works();
    api.advance(hourMs);
    await looked();
    expect(receiver.received).toHaveLength(1);
    await api.call({ method: 'PUT', url: hook.url, body: { status: 'enabled' }, key });
    await arrived(receiver, 2);
    expect(await attempted(hook, 2)).toMatchObject({ status: 'succeeded' });
  });

  it('that fails for three days without a success is disabled, and not before', async () => {
    fail(500);
    const hook = await hookAt(receiver);
    await cause();
    await attempted(hook, 1);
    await until(async () => (await hook.get()).failing_since !== null, {
      what: 'the beginning of the failure',
    });
    api.advance(2 * dayMs);
    await attempted(hook, 2);
    // A success in between begins anew.
    works();
    await cause();
    await until(async () => (await hook.get()).failing_since === null, { what: 'the end of the failure' });
    fail(500);
    const test = async () => {
      const before = receiver.received.length;
      await cause();
      await arrived(receiver, before + 1);
    };
    await test();
    await until(async () => (await hook.get()).failing_since !== null, { what: 'a new beginning' });
    api.advance(3 * dayMs - minuteMs);
    await test();
    expect((await hook.get()).status).toBe('enabled');
    // The next failure, of what is due again by now, is one too many.
    api.advance(minuteMs);
    await until(async () => (await hook.get()).status === 'disabled', { what: 'the end of the endpoint' });
    expect(await hook.get()).toMatchObject({ disabled_reason: 'failing' });
  });

  it('that hangs delays no other, on the same host or elsewhere', async () => {
    const held: ServerResponse[] = [];
    receiver.answer((response, { path }) => {
      if (path === '/dead') held.push(response);
      else response.writeHead(204).end();
    });
    const dead = await subscribe(api, { url: receiver.url.replace('/hook', '/dead'), events }, key);
    const healthy = await hookAt(control);
    await hookAt(receiver);
    const gates = 3 * webhooksLimits.webhookConcurrencyMax;
    for (let n = 0; n < gates; n++) await cause();
    await arrived(control, gates);
    await arrived(receiver, gates + webhooksLimits.webhookConcurrencyMax);
    expect(new Set(verifiedAll(control, healthy.secret).map(({ id }) => id)).size).toBe(gates);
    // Control: the dead one has its number of attempts under way, and no more.
    expect(held).toHaveLength(webhooksLimits.webhookConcurrencyMax);
    expect(await dead.deliveries('?status=pending')).toHaveLength(gates);
  });

  it('does not wait for three accounts full of endpoints that hang', async () => {
    const held: ServerResponse[] = [];
    receiver.answer((response) => void held.push(response));
    for (let account = 0; account < 3; account++) {
      const full = (await api.createAccount()).key;
      for (let n = 0; n < webhooksLimits.webhooksPerAccountMax; n++)
        await subscribe(api, { url: receiver.url, events }, full);
      for (let n = 0; n <= webhooksLimits.webhookConcurrencyMax; n++) await api.createGate({}, full);
    }
    await until(() => held.length >= outboxLimits.attemptsAtOnceMax / 2, {
      what: 'attempts that hang',
    });
    await hookAt(control);
    await expectWithin(limits.webhookTimeoutMs / 2, 'an event is delivered', async () => {
      const before = control.received.length;
      return timed(async () => {
        await cause();
        await arrived(control, before + 1);
      });
    });
  });

  it('that is deleted gets nothing more, and leaves no queue behind', async () => {
    fail(500);
    const hook = await hookAt(receiver);
    await cause();
    await attempted(hook, 1);
    const waits = async () => {
      const queues = await readQueues(api.deps.sql, deliveryQueues, {
        after: '',
        nowMs: api.deps.clock.now(),
      });
      return queues.some(({ endpointId }) => endpointId === hook.id);
    };
    // Control: what has failed waits for its next attempt.
    expect(await waits()).toBe(true);
    await api.call({ method: 'DELETE', url: hook.url, key });
    api.advance(hourMs);
    await looked();
    expect(receiver.received).toHaveLength(1);
    await until(async () => !(await waits()), { what: 'the end of its queue' });
  });

  it('at a private address is not called unless that is allowed', async () => {
    await running.stop();
    const hook = await hookAt(receiver);
    await cause();
    const strict = guardedFetch({ allowPrivate: false });
    running = deliverer({ ...api, deps: { ...api.deps, outbound: strict } });
    const [attempt] = (await attempted(hook, 1)).attempts;
    expect(attempt).toMatchObject({ status_code: null, error: 'only https is called' });
    expect(receiver.received).toEqual([]);
    await strict.close();
  });
});

describe('recover', () => {
  it('sends again what has failed since then, for good or so far, and nothing else', async () => {
    const hook = await hookAt(receiver);
    await cause();
    await until(async () => (await hook.deliveries('?status=succeeded')).length === 1, { what: 'a success' });
    fail(500);
    await cause();
    await cause();
    await until(
      async () => (await hook.deliveries()).filter((each) => each.attempt_count === 1).length === 3,
      { what: 'one attempt each' },
    );
    const [newest, older] = await hook.deliveries();
    works();
    const recovered = await api.call({ url: `${hook.url}/recover`, body: { since: newest.created_at }, key });
    expect(recovered.body).toEqual({ requeued: 1, has_more: false });
    await until(async () => (await hook.deliveries('?status=succeeded')).length === 2, {
      what: 'a second success',
    });
    const all = await api.call({ url: `${hook.url}/recover`, body: { since: older.created_at }, key });
    expect(all.body).toEqual({ requeued: 1, has_more: false });
    await until(async () => (await hook.deliveries('?status=succeeded')).length === 3, {
      what: 'all of them',
    });
    expect(receiver.received).toHaveLength(5);
  });
});

describe('a replica that dies in mid-delivery', () => {
  it('is replaced when its lease ends, and its later results are ignored', async () => {
    await running.stop();
    const hook = await hookAt(receiver);
    await cause();
    const slots = new Map([[hook.id as WebhookId, 5]]);
    const { sql, clock } = api.deps;
    const [claimed] = await lockDeliveries(sql, { slots, replicaId: 'dead', nowMs: clock.now() });
    const delivery = must(claimed, 'there is one delivery');
    running = deliverer(api);
    await looked();
    expect(receiver.received).toEqual([]);
    api.advance(webhooksLimits.webhookLockMs);
    await arrived(receiver, 1);
    await attempted(hook, 1);
    await recordDeliveries(sql, 'dead', [madeUp(delivery, { atMs: clock.now(), statusCode: 500 })]);
    const kept = { status: 'succeeded', attempt_count: 1, attempts: [{ attempt: 1 }] };
    expect(await only(hook)).toMatchObject(kept);
  });

  it('is passed over by another one that claims at the same moment', async () => {
    await running.stop();
    const hook = await hookAt(receiver);
    for (let n = 0; n < 20; n++) await cause();
    const claim = (replicaId: string) =>
      lockDeliveries(api.deps.sql, {
        slots: new Map([[hook.id as WebhookId, 5]]),
        replicaId,
        nowMs: api.deps.clock.now(),
      });
    const claimed = (await Promise.all(['a', 'b', 'c', 'd'].map(claim))).flat();
    expect(new Set(claimed.map(({ deliveryId }) => deliveryId)).size).toBe(claimed.length);
    expect(claimed.length).toBeGreaterThan(5);
    running = deliverer(api);
  });
});

describe('a long queue', () => {
  it('costs no more than a short one: nothing reads a whole table, also once the planner knows how long it is', async () => {
    await running.stop();
    const hook = await hookAt(receiver);
    const { sql, clock } = api.deps;
    // 4,000 deliveries of an event each, all due.
    const rows = sql`SELECT lpad(i::text, 26, '0') AS n FROM generate_series(1, 4000) AS i`;
    await sql`INSERT INTO webhook_events SELECT 'evt_' || n, 'gate.created', '{}' FROM (${rows}) AS made`;
    await sql`
      INSERT INTO webhook_deliveries (delivery_id, webhook_id, event_id, status, attempts, tries, next_attempt_at_ms, created_at_ms)
      SELECT 'dlv_' || n, ${hook.id}, 'evt_' || n, 'pending', 0, 0, 1, 1 FROM (${rows}) AS made`;
    await sql`ANALYZE`;
    const slots = new Map([[hook.id as WebhookId, 16]]);
    const { read, claimed } = await sql.begin(async (tx) => {
      // What earlier tests have left on this connection is still in these counters.
      const rowsRead = async (): Promise<number> =>
        (
          await tx`
            SELECT coalesce(sum(seq_tup_read), 0)::int AS n FROM pg_stat_xact_user_tables
            WHERE relname IN ('webhook_events', 'webhook_deliveries', 'webhook_attempts')`
        )[0]?.['n'];
      const before = await rowsRead();
      // More often than the plan for unknown values is put off.
      let count = 0;
      for (let round = 0; round < 8; round++) {
        const nowMs = clock.now();
        expect((await readQueues(tx, deliveryQueues, { after: '', nowMs })).some(({ isDue }) => isDue)).toBe(
          true,
        );
        const deliveries = await lockDeliveries(tx, { slots, replicaId: 'one', nowMs });
        const attempts = deliveries.map((delivery) => madeUp(delivery, { atMs: nowMs, statusCode: 204 }));
        await recordDeliveries(tx, 'one', attempts);
        count += deliveries.length;
      }
      return { read: (await rowsRead()) - before, claimed: count };
    });
    expect(claimed).toBe(128);
    expect(read).toBe(0);
    await sql`DELETE FROM webhook_deliveries WHERE webhook_id = ${hook.id}`;
    running = deliverer(api);
  });
});

describe('a long log', () => {
  it('is not read to list the few deliveries that have failed', async () => {
    await running.stop();
    const hook = await hookAt(receiver);
    const { sql } = api.deps;
    await sql`INSERT INTO webhook_events VALUES ('evt_of_a_long_log', 'gate.created', '{}')`;
    await sql`
      INSERT INTO webhook_deliveries (delivery_id, webhook_id, event_id, status, attempts, tries, created_at_ms)
      SELECT 'dlv_' || lpad(i::text, 26, '0'), ${hook.id}, 'evt_of_a_long_log',
        CASE WHEN i % 1000 = 0 THEN 'failed' ELSE 'succeeded' END, 1, 1, 1 FROM generate_series(1, 4000) AS i`;
    await sql`ANALYZE`;
    const read = await sql.begin(async (tx) => {
      const rowsRead = async (): Promise<number> =>
        (
          await tx`
            SELECT coalesce(sum(seq_tup_read + idx_tup_fetch), 0)::int AS n FROM pg_stat_xact_user_tables
            WHERE relname = 'webhook_deliveries'`
        )[0]?.['n'];
      const before = await rowsRead();
      const found = await listDeliveries(tx, {
        webhookId: hook.id as WebhookId,
        status: 'failed',
        page: { limit: 50, offset: 0, behind: null, total: null, query: '' },
      });
      expect([found.total, found.items.length]).toEqual([4, 4]);
      return (await rowsRead()) - before;
    });
    expect(read).toBeLessThan(100);
    await sql`DELETE FROM webhook_deliveries WHERE webhook_id = ${hook.id}`;
    running = deliverer(api);
    await sql`DELETE FROM webhook_events WHERE event_id = 'evt_of_a_long_log'`;
  });
});

describe('a replica that is stopped', () => {
  it('releases deliveries in flight when its time is over, for another replica to send at once', async () => {
    await running.stop();
    let laterMs = 0;
    const { clock } = api.deps;
    const monotonic = () => (clock.monotonic() + laterMs) as MonotonicMillis;
    running = deliverer({ ...api, deps: { ...api.deps, clock: { now: clock.now, monotonic } } });
    const hook = await hookAt(receiver);
    receiver.answer(() => undefined);
    await cause();
    await arrived(receiver, 1);
    const stopped = running.stop();
    laterMs = outboxLimits.drainMs;
    await stopped;
    works();
    running = deliverer(api);
    await arrived(receiver, 2);
    expect(await attempted(hook, 1)).toMatchObject({ status: 'succeeded', attempt_count: 1 });
  });
});

describe('an old delivery', () => {
  it('is removed with its attempts', async () => {
    const hook = await hookAt(receiver);
    await cause();
    await attempted(hook, 1);
    const { sql, clock } = api.deps;
    const count = async (table: string): Promise<number> =>
      (await sql`SELECT count(*)::int AS n FROM ${sql(table)}`)[0]?.['n'];
    await trimDeliveries(sql, clock.now());
    expect(await hook.deliveries()).toHaveLength(1);
    api.advance(outboxLimits.keptMs);
    while (!(await trimDeliveries(sql, clock.now())));
    for (const table of ['webhook_events', 'webhook_deliveries', 'webhook_attempts']) {
      expect(await count(table), table).toBe(0);
    }
  });
});

it('logs no secret, no body and no answer', () => {
  const text = log.text();
  expect(text).toContain('a webhook was disabled');
  expect(text).not.toMatch(/whsec_|gate_url|hunter2|webhook-signature/);
});
