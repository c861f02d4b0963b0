import { once } from 'node:events';
import { type AddressInfo, connect } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { Registry } from 'prom-client';
import { afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { busyIntervalOf, EventStream, readableTypes } from '../../control-plane/events/event-stream.ts';
import { EventStreams } from '../../control-plane/events/event-streams.ts';
import { eventsLimits } from '../../control-plane/events/limits.ts';
import { noteHints } from '../../control-plane/events/note-hints.ts';
import { hintChannel } from '../../control-plane/events/publish-hints.ts';
import { ApiError } from '../../shared/errors/api-error.ts';
import type { AccountId } from '../../shared/model/ids.ts';
import { dayMs } from '../../shared/model/time.ts';
import { systemClock } from '../../shared/runtime/clock.ts';
import { until } from '../support/base/until.ts';
import { EventReader } from '../support/peers/event-reader.ts';
import { type LoggedIn, startOwnApi } from '../support/service/api.ts';
import { goToNextMinute, openAnApproval } from '../support/service/approvals.ts';
import { secondControlPlane } from '../support/service/second-control-plane.ts';
import { useApi } from '../support/service/use-api.ts';

const api = useApi(startOwnApi);
let origin: string;
const readers: EventReader[] = [];

beforeAll(async () => {
  await api.app.listen({ host: '127.0.0.1', port: 0 });
  origin = `http://127.0.0.1:${(api.app.server.address() as AddressInfo).port}`;
});
afterEach(() => {
  for (const reader of readers.splice(0)) reader.leave();
});

const watch = async (headers: Readonly<Record<string, string>>, at = origin): Promise<EventReader> => {
  const reader = await EventReader.open(at, headers);
  readers.push(reader);
  await until(() => reader.comments + reader.events.length > 0, { what: 'the begin of the stream' });
  return reader;
};
const withKey = (key = api.adminKey) => ({ authorization: `Bearer ${key}` });
const browsing = ({ headers }: LoggedIn) => ({ cookie: String(headers['cookie']) });
const decide = async (gateId: string, token: string, key?: string) => {
  const body = { passport: token, request: { permission_key: 'orders:create' } };
  const reply = await api.call({
    url: `/v1/gates/${gateId}/check`,
    body,
    ...(key === undefined ? {} : { key }),
  });
  expect(reply.status).toBe(200);
};

describe('events', () => {
  it('say what has changed, when it can be read', async () => {
    const reader = await watch(withKey());
    expect(reader.headers.get('content-type')).toBe('text/event-stream; charset=utf-8');
    expect(reader.headers.get('connection')).toBe('close');
    expect(reader.headers.get('cache-control')).toBe('no-store');
    const { gate_id } = await api.createGate();
    await reader.has('gate', gate_id);
    const { passport_id, jwt } = await api.issuePassport();
    await reader.has('passport', passport_id);
    await decide(gate_id, jwt);
    await reader.has('record', gate_id);
    const { approvalId } = await openAnApproval(api);
    await reader.has('approval', approvalId);
    await api.call({ method: 'POST', url: `/v1/passports/${passport_id}/revoke`, body: {} });
    await reader.has('revocation', passport_id);
    expect(reader.events[0]).toEqual({ type: 'gate', id: gate_id, at: expect.stringMatching(/^20.*Z$/) });
    expect(reader.of('reset')).toEqual([]);
  });

  it('do not announce uncommitted changes', async () => {
    const { accountId, key } = await api.createAccount();
    const reader = await watch(withKey(key));
    const hint = (id: string) =>
      ({ accountId: accountId as AccountId, mode: null, type: 'gate', id }) as const;
    await expect(
      api.deps.sql.begin(async (tx) => {
        noteHints(tx, [hint('gate_of_nobody')]);
        throw new Error('undone');
      }),
    ).rejects.toThrow('undone');
    await api.deps.sql.begin(async (tx) => noteHints(tx, [hint('gate_committed')]));
    await reader.has('gate', 'gate_committed');
    expect(reader.events.map(({ id }) => id)).toEqual(['gate_committed']);
  });

  it("are of the own account and mode, within the key's scopes", async () => {
    const other = await api.createAccount();
    const test = await api.createKey({ scopes: ['admin:*'], mode: 'test' });
    const approver = await api.createKey({ scopes: ['approvals:read'] });
    const [stranger, tester, few, own] = await Promise.all(
      [other.key, test.key, approver.key, api.adminKey].map((key) => watch(withKey(key))),
    );
    const { gate_id } = await api.createGate();
    await own?.has('gate', gate_id);
    const { approvalId } = await openAnApproval(api);
    await own?.has('approval', approvalId);
    await few?.has('approval', approvalId);
    const last = await api.createGate({}, other.key);
    await stranger?.has('gate', last.gate_id);
    const tested = await api.createGate({}, test.key);
    await tester?.has('gate', tested.gate_id);
    expect(few?.events.map(({ type }) => type)).toEqual(['approval']);
    expect(stranger?.events.map(({ id }) => id)).toEqual([last.gate_id]);
    expect(tester?.events.map(({ id }) => id)).toEqual([tested.gate_id]);
  });

  it('are spaced for plans that count requests', () => {
    const perDay = (requestsPerMinute: number | null, requestsPerDay: number | null) =>
      dayMs / busyIntervalOf({ requestsPerMinute, requestsPerDay });
    expect(perDay(30, 1_000)).toBeLessThanOrEqual(250);
    expect(perDay(120, 10_000)).toBeLessThanOrEqual(2_500);
    expect(busyIntervalOf({ requestsPerMinute: null, requestsPerDay: null })).toBe(1_000);
    expect(busyIntervalOf({ requestsPerMinute: 0, requestsPerDay: 0 })).toBe(dayMs);
  });

  it('cost one request of the plan for the stream, and none while it is open', async () => {
    const { accountId, key } = await api.createAccount({ plan: 'free' });
    goToNextMinute(api);
    const reader = await watch(withKey(key));
    const left = Number(reader.headers.get('x-ratelimit-remaining'));
    const { gate_id } = await api.createGate({}, key);
    await reader.has('gate', gate_id);
    noteHints(api.deps.sql, [{ accountId: accountId as AccountId, mode: null, type: 'access', id: null }]);
    const next = await api.call({ url: '/v1/gates', key });
    expect(Number(next.headers['x-ratelimit-remaining'])).toBe(left - 2);
  });
});

describe('a stream ends', () => {
  it('with its session, its user, its key and its account, at once', async () => {
    const person = await api.createUser({ role: 'approver' });
    const leaver = await api.createUser({ role: 'read_only' });
    const { key, keyId } = await api.createKey({ scopes: ['gates:read'] });
    const [bySession, byUser, byKey] = await Promise.all([
      watch(browsing(person)),
      watch(browsing(leaver)),
      watch(withKey(key)),
    ]);
    await api.call({ method: 'DELETE', url: '/v1/session', key: null, headers: person.headers });
    expect(await bySession?.ended()).toBe('access_ended');
    await api.call({ method: 'PATCH', url: `/v1/users/${leaver.userId}`, body: { status: 'disabled' } });
    expect(await byUser?.ended()).toBe('access_ended');
    expect(byKey?.isOver).toBe(false);
    await api.call({ method: 'DELETE', url: `/v1/api-keys/${keyId}` });
    expect(await byKey?.ended()).toBe('access_ended');
    const account = await api.createAccount();
    const ofAccount = await watch(withKey(account.key));
    const body = { status: 'suspended' };
    await api.call({ method: 'PUT', url: `/v1/accounts/${account.accountId}`, body });
    expect(await ofAccount.ended()).toBe('access_ended');
  });

  it('where its reader takes nothing, with a bounded buffer', async () => {
    const { accountId, key } = await api.createAccount();
    const socket = connect((api.app.server.address() as AddressInfo).port, '127.0.0.1');
    socket.pause();
    socket.write(`GET /v1/events HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${key}\r\n\r\n`);
    const open = async () =>
      Number(
        (await api.deps.metrics.getSingleMetric('agent_trust_event_streams')?.get())?.values[0]?.value ?? 0,
      );
    await until(async () => (await open()) > 0, { what: 'an open stream' });
    const ended = async () =>
      api.deps.metrics.getSingleMetricAsString('agent_trust_event_streams_ended_total');
    const message = JSON.stringify(
      Array.from({ length: 1_000 }, (_, n) => ({
        mode: null,
        type: 'gate',
        id: `gate_${n}${'0'.repeat(90)}`,
      })),
    );
    // Until the buffers of the system are full, and then ours: some megabytes.
    for (let sent = 0; !(await ended()).includes('reason="slow_reader"} 1'); sent++) {
      expect(sent, 'messages that a reader does not take').toBeLessThan(2_000);
      api.deps.bus.publish(hintChannel(accountId as AccountId), message);
      await nextTurn();
    }
    const others = await watch(withKey());
    const { gate_id } = await api.createGate();
    await others.has('gate', gate_id);
    // It reads at last, and finds the reason before the end.
    let taken = '';
    socket.on('data', (bytes) => {
      taken = `${taken}${bytes}`.slice(-4_096);
    });
    socket.resume();
    await once(socket, 'close');
    socket.destroy();
    expect(taken).toContain('slow_reader');
  });

  it('before it begins, where there are too many of an account', async () => {
    const { key } = await api.createAccount();
    for (let n = 0; n < eventsLimits.streamsPerAccountMax; n++) await watch(withKey(key));
    await expect(EventReader.open(origin, withKey(key))).rejects.toThrow(/503.*overloaded/);
    readers.at(-1)?.leave();
    await until(
      async () =>
        EventReader.open(origin, withKey(key)).then(
          (reader) => readers.push(reader) > 0,
          () => false,
        ),
      { what: 'room for one more' },
    );
    await watch(withKey());
  });

  it('when its control plane stops, and goes on at another one', async () => {
    const second = await secondControlPlane(api);
    await second.app.listen({ host: '127.0.0.1', port: 0 });
    const there = `http://127.0.0.1:${(second.app.server.address() as AddressInfo).port}`;
    const reader = await watch(withKey(), there);
    // A change at the first one.
    const { gate_id } = await api.createGate();
    await reader.has('gate', gate_id);
    await second.close();
    expect(await reader.ended()).toBe('restarting');
    const back = await watch({ ...withKey(), 'last-event-id': '1' });
    expect(back.events[0]?.type).toBe('reset');
  });
});

describe('the streams of a process', () => {
  const accountId = 'acct_1' as AccountId;
  const caller = {
    accountId,
    mode: 'live',
    scopes: ['admin:*'],
    planLimits: { requestsPerMinute: null, requestsPerDay: null },
  } as unknown as Parameters<EventStreams['open']>[0]['caller'];
  const reading = (stream: EventStream) => {
    let text = '';
    stream.on('data', (bytes) => {
      text += bytes;
    });
    return { text: () => text };
  };

  it('beat, go on while the database is away, and are reset when it is back', async () => {
    const deps = { ...api.deps, metrics: new Registry() };
    const streams = new EventStreams(deps, 20);
    let answer = async () => caller;
    const stream = await streams.open({ caller, again: () => answer(), isBack: false });
    const seen = reading(stream);
    await until(() => seen.text().split(': heartbeat').length > 3, { what: 'heartbeats' });
    let looks = 0;
    answer = () => {
      looks += 1;
      return Promise.reject(Object.assign(new Error('away'), { code: 'ECONNREFUSED' }));
    };
    await until(() => looks > 2, { what: 'looks at a database that is away' });
    expect(stream.isEnded).toBe(false);
    expect(seen.text()).not.toContain('reset');
    answer = async () => caller;
    await until(() => seen.text().includes('"reset"'), { what: 'a reset' });
    // Its session ends by the clock, wherever that jumps to: nothing but the look-up knows.
    answer = () => Promise.reject(new ApiError('unauthorized'));
    await until(() => seen.text().includes('access_ended'), { what: 'the end' });
    streams.close();
  });

  it('end where a scope is lost', async () => {
    const streams = new EventStreams({ ...api.deps, metrics: new Registry() }, 20);
    const again = async () => ({ ...caller, scopes: ['gates:read'] as const });
    const stream = await streams.open({ caller, again, isBack: false });
    const seen = reading(stream);
    await until(() => seen.text().includes('access_changed'), { what: 'the end' });
    streams.close();
  });

  it('are reset when messages of the bus may have been lost', async () => {
    const interruptions: (() => void)[] = [];
    const bus = {
      ...api.deps.bus,
      onInterrupted: (listener: () => void) => {
        interruptions.push(listener);
        return () => undefined;
      },
    };
    const streams = new EventStreams({ ...api.deps, bus, metrics: new Registry() });
    const stream = await streams.open({ caller, again: async () => caller, isBack: false });
    const seen = reading(stream);
    for (const interrupt of interruptions) interrupt();
    await until(() => seen.text().includes('"reset"'), { what: 'a reset' });
    streams.close();
  });

  it('tell of records once a second for a gate, whatever the load', () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    let nowMs = systemClock.monotonic();
    const clock = { ...systemClock, monotonic: () => nowMs };
    const busyIntervalMs = busyIntervalOf(caller.planLimits);
    const types = readableTypes(['admin:*']);
    const stream = new EventStream(clock, { mode: 'live', types, busyIntervalMs });
    const counts = [0, 999, 1, 1_000].map((laterMs) => {
      for (let n = 0; n < 1_000; n++) stream.offer({ mode: 'live', type: 'record', id: `gate_${n % 10}` });
      nowMs = (nowMs + laterMs) as typeof nowMs;
      vi.advanceTimersByTime(laterMs);
      const ids = String(stream.read() ?? '').match(/"id":"gate_\d"/g) ?? [];
      return [ids.length, new Set(ids).size];
    });
    vi.useRealTimers();
    expect(counts).toEqual([
      [10, 10],
      [0, 0],
      [10, 10],
      [10, 10],
    ]);
    stream.destroy();
  });

  it('name only the type where too many ids wait', () => {
    const types = readableTypes(['admin:*']);
    const stream = new EventStream(systemClock, { mode: 'live', types, busyIntervalMs: 60_000 });
    const seen = reading(stream);
    for (let n = 0; n < 10 * eventsLimits.busyWaitingMax; n++) {
      stream.offer({ mode: 'live', type: 'record', id: `gate_${n}` });
    }
    stream.offer({ mode: 'test', type: 'gate', id: 'gate_of_the_other_mode' });
    return until(() => seen.text().includes('"id":null'), { what: 'the hint without an id' }).then(() => {
      expect(seen.text().split('data: ').length - 1).toBe(eventsLimits.busyWaitingMax + 1);
      expect(seen.text()).not.toContain('gate_of_the_other_mode');
      stream.destroy();
    });
  });
});
