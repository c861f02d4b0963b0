import { beforeAll, describe, expect, it } from 'vitest';
import { webhooksLimits } from '../../control-plane/webhooks/limits.ts';
import { limits } from '../../shared/model/limits.ts';
import { startOwnApi } from '../support/service/api.ts';
import { expectError } from '../support/service/expect-error.ts';
import { useApi } from '../support/service/use-api.ts';

const api = useApi(startOwnApi);

const good = { url: 'https://hooks.example.com/agent-trust', events: ['passport.revoked'] };
const create = (body: object, key?: string, headers = {}) =>
  api.call({ url: '/v1/webhooks', body, headers, ...(key === undefined ? {} : { key }) });

describe('creating a webhook', () => {
  it('answers it with its secret, which nothing answers again', async () => {
    const { status, body } = await create({ ...good, description: 'On call' });
    expect(status).toBe(201);
    expect(body).toEqual({
      ...good,
      webhook_id: expect.stringMatching(/^wh_/),
      description: 'On call',
      format: 'standard',
      status: 'enabled',
      disabled_reason: null,
      failing_since: null,
      created_at: body.created_at,
      updated_at: body.created_at,
      secret: expect.stringMatching(/^whsec_[A-Za-z0-9+/]{43}=$/),
    });
    const { secret, ...shown } = body;
    expect((await api.call({ url: `/v1/webhooks/${body.webhook_id}` })).body).toEqual(shown);
    const list = (await api.call({ url: '/v1/webhooks' })).body;
    expect(list.items[0]).toEqual(shown);
    expect(JSON.stringify(list)).not.toContain(secret);
  });

  it('stores the secret sealed, and nowhere else', async () => {
    const { body } = await create(good, undefined, { 'idempotency-key': 'seals' });
    const raw = Buffer.from(body.secret.slice('whsec_'.length), 'base64');
    const tables = await api.deps.sql<{ name: string }[]>`
      SELECT table_name AS name FROM information_schema.tables WHERE table_schema = 'public'`;
    for (const { name } of tables) {
      const rows = JSON.stringify(await api.deps.sql`SELECT * FROM ${api.deps.sql(name)}`);
      for (const form of [
        body.secret,
        body.secret.slice(6),
        raw.toString('hex'),
        raw.toString('base64url'),
      ]) {
        expect(rows.includes(form), name).toBe(false);
      }
    }
    const [row] = await api.deps
      .sql`SELECT sealed_secret FROM webhooks WHERE webhook_id = ${body.webhook_id}`;
    // Control: what lies there is the secret, for whoever has the master key and knows the place.
    const open = (context: string) =>
      Buffer.from(api.deps.sealer.open(row?.['sealed_secret'], context)).toString('utf8');
    expect(open(`webhooks/${body.webhook_id}`)).toBe(body.secret);
    expect(() => open('webhooks/wh_other')).toThrow();
  });

  it.each([
    ['events.0', { ...good, events: ['passport.issued'] }],
    ['events', { ...good, events: [] }],
    ['events', { url: good.url }],
    ['url', { events: good.events }],
    ['secret', { ...good, secret: 'whsec_mine' }],
  ])('refuses a body whose %s is wrong', async (param, body) => {
    expectError(await create(body), 'invalid_request', param);
  });

  it.each([
    'http://hooks.example.com/',
    'https://2130706433/',
    'https://169.254.169.254/latest/meta-data',
    'https://user:password@hooks.example.com/',
    'https://hooks.example.com\\@evil.test/',
  ])('refuses %s as an address', async (url) => {
    const reply = await create({ ...good, url });
    expectError(reply, 'invalid_request', 'url');
    expect(reply.body.error.message).not.toContain('password@');
  });

  it('ends at a number of webhooks for each account and mode, also when many come at once', async () => {
    const { key } = await api.createAccount();
    const replies = await Promise.all(
      Array.from({ length: webhooksLimits.webhooksPerAccountMax + 4 }, () => create(good, key)),
    );
    expect(replies.filter(({ status }) => status === 201)).toHaveLength(webhooksLimits.webhooksPerAccountMax);
    for (const reply of replies.filter(({ status }) => status !== 201)) expectError(reply, 'invalid_request');
    const test = await api.createKey({ scopes: ['webhooks:manage'], mode: 'test' }, key);
    expect((await create(good, test.key)).status).toBe(201);
  });
});

describe('a webhook', () => {
  const made = async (body = good): Promise<string> =>
    `/v1/webhooks/${(await create(body, owner)).body.webhook_id}`;
  let owner: string;
  beforeAll(async () => {
    owner = (await api.createAccount()).key;
  });

  it('is disabled by its owner and enabled again', async () => {
    const url = await made();
    const put = (status: string) => api.call({ method: 'PUT', url, body: { status }, key: owner });
    expect((await put('disabled')).body).toMatchObject({ status: 'disabled', disabled_reason: 'owner' });
    expectError(
      await api.call({ method: 'POST', url: `${url}/test`, body: {}, key: owner }),
      'invalid_request',
    );
    expect((await put('enabled')).body).toMatchObject({ status: 'enabled', disabled_reason: null });
  });

  it('does not take a wrong change', async () => {
    const url = await made();
    const wrong = { url: 'http://a.example/', events: [], status: 'gone', mode: 'live' };
    for (const [name, value] of Object.entries({ ...wrong, description: 7 })) {
      const reply = await api.call({ method: 'PUT', url, body: { [name]: value }, key: owner });
      expectError(reply, 'invalid_request', name);
    }
  });

  it('without a url stays without one, and nothing is sent to it', async () => {
    const fetched = await made({ url: null, events: ['gate.created'] } as unknown as typeof good);
    const put = await api.call({ method: 'PUT', url: fetched, body: { url: good.url }, key: owner });
    expectError(put, 'invalid_request', 'url');
    await api.createGate({}, owner);
    const { items } = (await api.call({ url: `${fetched}/deliveries`, key: owner })).body;
    expect(items).toMatchObject([{ event: 'gate.created', status: 'pending', next_attempt_at: null }]);
    const again = `${fetched}/deliveries/${items[0].delivery_id}/resend`;
    expectError(await api.call({ method: 'POST', url: again, key: owner }), 'invalid_request');
  });

  it('gets a new secret', async () => {
    const { body } = await create(good, owner);
    const url = `/v1/webhooks/${body.webhook_id}/roll-secret`;
    const rolled = await api.call({ url, body: { overlap_s: 60 }, key: owner });
    expect(rolled.status).toBe(200);
    expect(rolled.body.secret).toMatch(/^whsec_/);
    expect(rolled.body.secret).not.toBe(body.secret);
    for (const overlap_s of [-1, 0.5, limits.keyOverlapMsMax / 1_000 + 1]) {
      const reply = await api.call({ url, body: { overlap_s }, key: owner });
      expectError(reply, 'invalid_request', 'overlap_s');
    }
  });

  it('is not rolled while as many earlier secrets sign as may, so that none ends before its time', async () => {
    const { body } = await create(good, owner);
    const url = `/v1/webhooks/${body.webhook_id}/roll-secret`;
    const roll = (overlap_s: number) => api.call({ url, body: { overlap_s }, key: owner });
    for (let rolled = 0; rolled < webhooksLimits.webhookPreviousSecretsMax; rolled++) {
      expect((await roll(60)).status).toBe(200);
    }
    const refused = await roll(60);
    expectError(refused, 'invalid_request', 'overlap_s');
    expect(refused.body.error.message).toMatch(/4 earlier secrets .* until \d{4}-.*Z.*overlap_s 0/);
    api.advance(60_000);
    expect((await roll(60)).status).toBe(200);
    expect((await roll(0)).status).toBe(200);
  });
});

describe('a webhook of another account', () => {
  it('does not exist, and neither does one of the other mode or a delivery of another webhook', async () => {
    const { key } = await api.createAccount();
    const one = `/v1/webhooks/${(await create(good, key)).body.webhook_id}`;
    const other = `/v1/webhooks/${(await create(good, key)).body.webhook_id}`;
    const sent = await api.call({ url: `${one}/test`, body: {}, key });
    const delivery = `/deliveries/${sent.body.delivery_id}/resend`;
    const test = await api.createKey({ scopes: ['admin:*'], mode: 'test' }, key);
    const calls = (url: string) => [
      { url },
      { method: 'PUT', url, body: {} },
      { method: 'DELETE', url },
      { url: `${url}/roll-secret`, body: {} },
      { url: `${url}/test`, body: {} },
      { url: `${url}/deliveries` },
      { method: 'POST', url: `${url}${delivery}` },
      { url: `${url}/recover`, body: { since: '2026-01-01T00:00:00Z' } },
    ];
    for (const stranger of [api.adminKey, test.key]) {
      for (const call of calls(one))
        expectError(await api.call({ ...call, key: stranger }), 'webhook_not_found');
      expect((await api.call({ url: '/v1/webhooks', key: test.key })).body.items).toEqual([]);
    }
    for (const call of calls('/v1/webhooks/wh_x'))
      expectError(await api.call({ ...call, key }), 'webhook_not_found');
    expectError(await api.call({ method: 'POST', url: `${other}${delivery}`, key }), 'delivery_not_found');
    const nonsense = `${one}/deliveries/dlv_x/resend`;
    expectError(await api.call({ method: 'POST', url: nonsense, key }), 'delivery_not_found');
    // Control: its owner still has it.
    expect((await api.call({ url: one, key })).status).toBe(200);
  });
});

describe('a test event', () => {
  it('is a delivery of this webhook, with sample data', async () => {
    const { key } = await api.createAccount();
    const { webhook_id } = (await create(good, key)).body;
    const url = `/v1/webhooks/${webhook_id}/test`;
    const { status, body } = await api.call({ url, body: { event: 'approval.requested' }, key });
    expect(status).toBe(200);
    expect(body).toMatchObject({ webhook_id, event: 'approval.requested', status: 'pending', attempts: [] });
    expect(body.payload.data.approval_id).toMatch(/^appr_/);
    expect((await api.call({ url, body: {}, key })).body.event).toBe('passport.revoked');
    const unknown = await api.call({ url, body: { event: 'nothing' }, key });
    expectError(unknown, 'invalid_request', 'event');
    const list = (await api.call({ url: `/v1/webhooks/${webhook_id}/deliveries?limit=1`, key })).body;
    expect([list.total, list.items.length]).toEqual([2, 1]);
    const none = await api.call({ url: `/v1/webhooks/${webhook_id}/deliveries?status=failed`, key });
    expect(none.body.total).toBe(0);
    expectError(
      await api.call({ url: `/v1/webhooks/${webhook_id}/deliveries?status=lost`, key }),
      'invalid_request',
      'status',
    );
  });

  it('is the only thing that recover passes over while it was never attempted', async () => {
    const { key } = await api.createAccount();
    const url = `/v1/webhooks/${(await create(good, key)).body.webhook_id}`;
    await api.call({ url: `${url}/test`, body: {}, key });
    const recovered = await api.call({ url: `${url}/recover`, body: { since: '2026-01-01T00:00:00Z' }, key });
    expect(recovered.body).toEqual({ requeued: 0, has_more: false });
    for (const since of ['yesterday', '2026-02-30T00:00:00Z', 7]) {
      const reply = await api.call({ url: `${url}/recover`, body: { since }, key });
      expectError(reply, 'invalid_request', 'since');
    }
  });
});
