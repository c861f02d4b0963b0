import { Registry } from 'prom-client';
import { beforeEach, describe, expect, it } from 'vitest';
import { outboxLimits } from '../../control-plane/outbox/limits.ts';
import { makeRecorder } from '../../control-plane/outbox/run-outbox.ts';
import { webhookOutbox } from '../../control-plane/webhooks/deliver.ts';
import { type LockedDelivery, lockDeliveries } from '../../control-plane/webhooks/delivery-queue.ts';
import { webhooksLimits } from '../../control-plane/webhooks/limits.ts';
import { trimDeliveries } from '../../control-plane/webhooks/trim-deliveries.ts';
import { must } from '../../shared/errors/assert.ts';
import type { WebhookId } from '../../shared/model/ids.ts';
import { minuteMs, type UnixMillis } from '../../shared/model/time.ts';
import { startOwnApi } from '../support/service/api.ts';
import { useApi } from '../support/service/use-api.ts';
import { type Endpoint, madeUp, subscribe } from '../support/service/webhooks.ts';

/**
 * What attempts say about an endpoint, where the owner or another attempt was faster. Nothing is sent:
 * attempts are made up.
 */
const api = useApi(startOwnApi);
let key: string;
let accountId: string;
let hook: Endpoint;

beforeEach(async () => {
  ({ key, accountId } = await api.createAccount());
  hook = await subscribe(api, { url: 'https://old.example/', events: ['gate.created'] }, key);
});

const change = (body: object) => api.call({ method: 'PUT', url: hook.url, body, key });
const write = (attempts: readonly ReturnType<typeof madeUp>[]) =>
  makeRecorder({ ...api.deps, metrics: new Registry() }, webhookOutbox(api.deps))(attempts);
const claim = (slots = 16, at = hook) =>
  lockDeliveries(api.deps.sql, {
    slots: new Map([[at.id as WebhookId, slots]]),
    replicaId: api.deps.replicaId,
    nowMs: api.deps.clock.now(),
  });
const claimed = async (count: number): Promise<readonly LockedDelivery[]> => {
  for (let n = 0; n < count; n++) await api.createGate({}, key);
  const deliveries = await claim();
  expect(deliveries).toHaveLength(count);
  return deliveries;
};
const attempt = (
  delivery: LockedDelivery | undefined,
  statusCode: number,
  pausedUntilMs: UnixMillis | null = null,
) => madeUp(must(delivery, 'it was claimed'), { atMs: api.deps.clock.now(), statusCode, pausedUntilMs });
const inAMinute = () => (api.deps.clock.now() + minuteMs) as UnixMillis;

describe('an attempt at the URL until now', () => {
  it('says nothing about the next one: it neither disables nor pauses it', async () => {
    const [first, second] = await claimed(2);
    await change({ url: 'https://new.example/' });
    await write([attempt(first, 410), attempt(second, 503, inAMinute())]);
    expect(await hook.get()).toMatchObject({ status: 'enabled', failing_since: null });
    await claimed(1);
  });
});

describe('an attempt that is written down late', () => {
  it('says nothing about an endpoint that its owner has enabled meanwhile', async () => {
    const [gone, late, busy] = await claimed(3);
    await write([attempt(gone, 410)]);
    await change({ status: 'enabled' });
    await write([attempt(late, 410), attempt(busy, 503, inAMinute())]);
    expect(await hook.get()).toMatchObject({ status: 'enabled', failing_since: null });
    const [next] = await claimed(1);
    // Control: what is attempted from then on does.
    await write([attempt(next, 410)]);
    expect((await hook.get()).status).toBe('disabled');
  });

  it('is passed over for a later one of its delivery, by the same replica and written down at once', async () => {
    const [late] = await claimed(1);
    api.advance(webhooksLimits.webhookLockMs);
    const [again] = await claim();
    await write([attempt(late, 500), attempt(again, 204)]);
    const one = { status: 'succeeded', attempt_count: 1, attempts: [{ status_code: 204 }] };
    expect(await hook.deliveries()).toMatchObject([one]);
  });

  it('counts after a change that is no new beginning', async () => {
    const [first] = await claimed(1);
    await change({ description: 'another', status: 'enabled', url: 'https://old.example/' });
    await api.call({ method: 'POST', url: `${hook.url}/roll-secret`, body: {}, key });
    await write([attempt(first, 410)]);
    expect((await hook.get()).status).toBe('disabled');
  });
});

describe('an endpoint that takes some and asks for a pause', () => {
  it('gets it, also where both are written down at once', async () => {
    const [first, second] = await claimed(2);
    await write([attempt(first, 204), attempt(second, 429, inAMinute())]);
    expect((await hook.get()).failing_since).toBeNull();
    await api.createGate({}, key);
    expect(await claim()).toEqual([]);
    api.advance(minuteMs);
    expect(await claim()).toHaveLength(1);
  });
});

describe('an endpoint that works', () => {
  it('counts as working, also where an earlier failure is written down between claim and success', async () => {
    const [first, second] = await claimed(2);
    await write([attempt(first, 500)]);
    expect((await hook.get()).failing_since).not.toBeNull();
    await write([attempt(second, 204)]);
    expect((await hook.get()).failing_since).toBeNull();
  });
});

describe('what its owner sends to an endpoint, as a test or once more,', () => {
  const ask = (path: string) => api.call({ method: 'POST', url: `${hook.url}${path}`, body: {}, key });
  it.each(['/test', 'again'])('says nothing of its health, good or bad: %s', async (how) => {
    const send = async () => {
      if (how === '/test') expect((await ask(how)).status).toBe(200);
      else {
        const [before] = await claimed(1);
        await api.deps
          .sql`UPDATE webhook_deliveries SET attempts = 1, tries = 1, status = 'failed', next_attempt_at_ms = NULL, claimed_by = NULL
          WHERE delivery_id = ${must(before, 'it was claimed').deliveryId}`;
        expect((await ask(`/deliveries/${before?.deliveryId}/resend`)).status).toBe(200);
      }
      const [sent] = await claim();
      return sent;
    };
    await write([attempt(await send(), 410)]);
    expect(await hook.get()).toMatchObject({ status: 'enabled', failing_since: null });
    await write([attempt((await claimed(1))[0], 500)]);
    const { failing_since: since } = await hook.get();
    expect(since).not.toBeNull();
    await write([attempt(await send(), 204)]);
    expect((await hook.get()).failing_since).toBe(since);
    // Control: what happens by itself does.
    await write([attempt((await claimed(1))[0], 204)]);
    expect((await hook.get()).failing_since).toBeNull();
  });

  it('may still ask for a pause', async () => {
    await ask('/test');
    const [sent] = await claim();
    await write([attempt(sent, 429, inAMinute())]);
    expect((await hook.get()).failing_since).toBeNull();
    await api.createGate({}, key);
    expect(await claim()).toEqual([]);
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

describe('the endpoints of a suspended account', () => {
  const standing = (status: 'active' | 'suspended') =>
    api.call({ method: 'PUT', url: `/v1/accounts/${accountId}`, body: { status } });

  it('get nothing; their events wait until the account is active again', async () => {
    await api.createGate({}, key);
    const passport = await api.issuePassport({}, key);
    const other = await subscribe(api, { url: 'https://it.example/', events: ['passport.denied'] }, key);
    await standing('suspended');
    expect(await claim()).toEqual([]);
    // Another account's gate meets a passport of the suspended one.
    const theirs = await api.createGate({ constraints: { trusted_issuers: ['*'] } });
    const check = `/v1/gates/${theirs.gate_id}/check`;
    const { body } = await api.call({ url: check, body: { passport: passport.jwt, request: {} } });
    expect(body.reason).toBe('passport_suspended');
    expect(await claim(16, other)).toEqual([]);
    await standing('active');
    expect(await claim()).toHaveLength(1);
    const [denied] = await claim(16, other);
    expect(JSON.parse(must(denied, 'it waited').body).data.attestation_id).toBe(body.attestation_id);
  });

  it('have three days again to succeed: while nothing was sent, nothing failed', async () => {
    const [first, second] = await claimed(2);
    await write([attempt(first, 500)]);
    await standing('suspended');
    api.advance(outboxLimits.failingMsMax);
    await standing('active');
    expect((await hook.get()).failing_since).toBeNull();
    // What was under way at the suspension belongs to the time before.
    await write([attempt(second, 410)]);
    await api.createGate({}, key);
    const [next] = await claim(1);
    await write([attempt(next, 500)]);
    expect((await hook.get()).status).toBe('enabled');
  });
});

describe('an endpoint without a URL and without fetches', () => {
  it('is disabled, and enabled again by the next fetch: a machine that slept goes on', async () => {
    const unread = await subscribe(api, { url: null, events: ['gate.created'] }, key);
    for (const status of ['enabled', 'disabled']) {
      await trimDeliveries(api.deps.sql, api.deps.clock.now());
      expect((await unread.get()).status).toBe(status);
      api.advance(webhooksLimits.webhookUnreadMsMax + minuteMs);
    }
    expect((await unread.get()).disabled_reason).toBe('unread');
    await unread.deliveries();
    expect(await unread.get()).toMatchObject({ status: 'enabled', disabled_reason: null });
    await api.createGate({}, key);
    expect(await unread.deliveries()).toHaveLength(1);
  });

  it('stays disabled where its owner has done that', async () => {
    const own = await subscribe(api, { url: null, events: ['gate.created'] }, key);
    await api.call({ method: 'PUT', url: own.url, body: { status: 'disabled' }, key });
    api.advance(webhooksLimits.webhookUnreadMsMax + minuteMs);
    await own.deliveries();
    expect(await own.get()).toMatchObject({ status: 'disabled', disabled_reason: 'owner' });
  });
});
