import { Registry } from 'prom-client';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Attempt } from '../../control-plane/webhooks/attempt-delivery.ts';
import { type ClaimedDelivery, claimDeliveries } from '../../control-plane/webhooks/delivery-queue.ts';
import { trimDeliveries } from '../../control-plane/webhooks/trim-deliveries.ts';
import { attemptWriter } from '../../control-plane/webhooks/write-down.ts';
import { must } from '../../shared/errors/assert.ts';
import type { WebhookId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import { minuteMs, type UnixMillis } from '../../shared/model/time.ts';
import { type Api, startApi } from '../support/api.ts';
import { type Endpoint, subscribe } from '../support/webhooks.ts';

/** What attempts say about an endpoint, where the owner or another attempt was faster. Nothing is sent: attempts are made up. */
let api: Api;
let key: string;
let hook: Endpoint;

beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.close());
beforeEach(async () => {
  key = (await api.createAccount()).key;
  hook = await subscribe(api, { url: 'https://old.example/', events: ['gate.created'] }, key);
});

const change = (body: object) => api.call({ method: 'PUT', url: hook.url, body, key });
const write = (attempts: readonly Attempt[]) =>
  attemptWriter({ ...api.deps, metrics: new Registry(), replicaId: 'one' })(attempts);
const claim = (slots = 16) =>
  claimDeliveries(api.deps.sql, {
    slots: new Map([[hook.id as WebhookId, slots]]),
    replicaId: 'one',
    nowMs: api.deps.clock.now(),
  });
const claimed = async (count: number): Promise<readonly ClaimedDelivery[]> => {
  for (let n = 0; n < count; n++) await api.createGate({}, key);
  const deliveries = await claim();
  expect(deliveries).toHaveLength(count);
  return deliveries;
};
const attempt = (
  delivery: ClaimedDelivery | undefined,
  statusCode: number,
  pausedUntilMs: number | null = null,
): Attempt => ({
  settlement: {
    delivery: must(delivery, 'it was claimed'),
    startedAtMs: api.deps.clock.now(),
    latencyMs: 1,
    statusCode,
    error: null,
    response: '',
    status: statusCode === 204 ? 'succeeded' : 'failed',
    nextAttemptAtMs: null,
  },
  hasSucceeded: statusCode === 204,
  isGone: statusCode === 410,
  pausedUntilMs: pausedUntilMs as UnixMillis | null,
});

describe('an attempt at the URL until now', () => {
  it('says nothing about the next one: it neither disables nor pauses it', async () => {
    const [first, second] = await claimed(2);
    await change({ url: 'https://new.example/' });
    const untilMs = api.deps.clock.now() + minuteMs;
    await write([attempt(first, 410), attempt(second, 503, untilMs)]);
    expect(await hook.get()).toMatchObject({ status: 'enabled', failing_since: null });
    await claimed(1);
  });

  it('control: without the change it disables it', async () => {
    const [first] = await claimed(1);
    await write([attempt(first, 410)]);
    expect(await hook.get()).toMatchObject({ status: 'disabled', disabled_reason: 'gone' });
  });
});

describe('an endpoint that takes some and asks for a pause', () => {
  it('gets it, also where both are written down at once', async () => {
    const [first, second] = await claimed(2);
    await write([attempt(first, 204), attempt(second, 429, api.deps.clock.now() + minuteMs)]);
    expect((await hook.get()).failing_since).toBeNull();
    await api.createGate({}, key);
    expect(await claim()).toEqual([]);
    api.advance(minuteMs);
    expect(await claim()).toHaveLength(1);
  });
});

describe('an endpoint that was disabled after its queue was looked at', () => {
  it('gets nothing more', async () => {
    await api.createGate({}, key);
    await change({ status: 'disabled' });
    expect(await claim()).toEqual([]);
    await change({ status: 'enabled' });
    expect(await claim()).toHaveLength(1);
  });
});

describe('an endpoint without a URL from which nobody fetched', () => {
  it('is disabled, and enabled again by the next fetch: a machine that slept goes on', async () => {
    const unread = await subscribe(api, { url: null, events: ['gate.created'] }, key);
    api.advance(limits.webhookUnreadMsMax + minuteMs);
    await trimDeliveries(api.deps.sql, api.deps.clock.now());
    expect(await unread.get()).toMatchObject({ status: 'disabled', disabled_reason: 'unread' });
    await unread.deliveries();
    expect(await unread.get()).toMatchObject({ status: 'enabled', disabled_reason: null });
    await api.createGate({}, key);
    expect(await unread.deliveries()).toHaveLength(1);
  });

  it('stays disabled where its owner has done that', async () => {
    const own = await subscribe(api, { url: null, events: ['gate.created'] }, key);
    await api.call({ method: 'PUT', url: own.url, body: { status: 'disabled' }, key });
    api.advance(limits.webhookUnreadMsMax + minuteMs);
    await own.deliveries();
    expect(await own.get()).toMatchObject({ status: 'disabled', disabled_reason: 'owner' });
  });
});
