import { describe, expect, it } from 'vitest';
import { expectError } from '../support/service/expect-error.ts';
import { useApi } from '../support/service/use-api.ts';

const api = useApi();

const builtIn = ['read-only-research', 'payments-low-risk', 'payments-approval'];
const post = (body: object, key?: string) =>
  api.call({ url: '/v1/templates', body, ...(key === undefined ? {} : { key }) });
const list = (query = '', key?: string) =>
  api.call({ url: `/v1/templates${query}`, ...(key === undefined ? {} : { key }) });
const idsOf = (body: { items: { template_id: string }[] }) => body.items.map((each) => each.template_id);
const gateFrom = (templateId: string, body: object = {}) =>
  api.call({ url: '/v1/gates', body: { name: 'Orders', template_id: templateId, ...body } });

describe('built-in templates', () => {
  it.each(builtIn)('%s needs no key', async (templateId) => {
    const other = await api.createAccount();
    const reply = await api.call({ url: `/v1/templates/${templateId}`, key: other.key });
    expect(reply.status).toBe(200);
    expect(reply.body).toEqual({
      template_id: templateId,
      name: expect.any(String),
      description: expect.any(String),
      trust_level: expect.stringMatching(/^L[123]$/),
      constraints: expect.objectContaining({ spend_limits: expect.any(Object) }),
      built_in: true,
      created_at: '2026-11-01T00:00:00.000Z',
    });
  });

  it.each(builtIn)('201: a gate of %s has its level and its constraints', async (templateId) => {
    const { trust_level, constraints } = (await api.call({ url: `/v1/templates/${templateId}` })).body;
    const reply = await gateFrom(templateId);
    expect(reply.status).toBe(201);
    expect(reply.body).toMatchObject({ trust_level, constraints });
  });

  it.each([
    ['read-only-research', { permission_key: 'research:read' }],
    ['payments-low-risk', { permission_key: 'payments:create', amount: 5 }],
    ['payments-approval', { permission_key: 'payments:create', amount: 5 }],
  ])('%s lets a passport with nothing but defaults do what it is made for', async (templateId, request) => {
    const { gate_id: gate } = (await gateFrom(templateId)).body;
    const body = { agent_id: `default-${templateId}`, permissions: [request.permission_key] };
    const { jwt } = (await api.call({ url: '/v1/passports', body })).body;
    const url = `/v1/gates/${gate}/check`;
    const reply = await api.call({ url, body: { passport: jwt, request } });
    expect(reply.body).toMatchObject({ decision: 'PERMIT', reason: null });
  });
});

describe('POST /templates', () => {
  it('201: answers the template with its constraints normalised', async () => {
    const reply = await post({
      name: 'Mine',
      description: 'For tests',
      trust_level: 'L2',
      constraints: { allowed_domains: ['API.example.com:443'], spend_limits: { alert_at: 0.8 } },
    });
    expect(reply.status).toBe(201);
    expect(reply.body).toEqual({
      template_id: expect.stringMatching(/^tmpl_[0-9a-z]{26}$/),
      name: 'Mine',
      description: 'For tests',
      trust_level: 'L2',
      constraints: { allowed_domains: ['api.example.com'], spend_limits: {} },
      built_in: false,
      created_at: expect.stringMatching(/\.\d{3}Z$/),
    });
    const read = await api.call({ url: `/v1/templates/${reply.body.template_id}` });
    expect(read.body).toEqual(reply.body);
  });

  it('may require proof of possession, which its gates then do', async () => {
    const constraints = { proof_of_possession: 'required' };
    const { body } = await post({ name: 'With proof', constraints });
    expect(body.constraints).toEqual(constraints);
    expect((await api.call({ url: `/v1/templates/${body.template_id}` })).body).toEqual(body);
    const made = await gateFrom(body.template_id, { trust_level: 'L1' });
    expect(made.body.constraints).toEqual(constraints);
    const without = { trust_level: 'L1', constraints: { proof_of_possession: null } };
    expect((await gateFrom(body.template_id, without)).body.constraints).toEqual({});
  });

  it.each<[object, string]>([
    [{ name: undefined }, 'name'],
    [{ trust_level: 'L4' }, 'trust_level'],
    [{ template_id: 'mine' }, 'template_id'],
    [{ constraints: { spend_limits: { daily_usd: 0.1234567 } } }, 'constraints.spend_limits.daily_usd'],
  ])('400: refuses %j, naming %s', async (more, param) => {
    const { total } = (await list()).body;
    expectError(await post({ name: 'Mine', ...more }), 'invalid_request', param);
    expect((await list()).body.total).toBe(total);
  });
});

describe('GET /templates', () => {
  it('lists the built-in ones, then the own ones of the same world, newest first', async () => {
    const { key } = await api.createAccount();
    const test = await api.createKey({ scopes: ['admin:*'], mode: 'test' }, key);
    expect((await list('', key)).body).toMatchObject({ total: 3, limit: 50, offset: 0 });
    const older = (await post({ name: 'a' }, key)).body.template_id;
    await new Promise((resolve) => setImmediate(resolve));
    const newer = (await post({ name: 'b' }, key)).body.template_id;
    const own = [older, newer].sort().reverse();
    expect(idsOf((await list('', key)).body)).toEqual([...builtIn, ...own]);
    expect(idsOf((await list('?limit=2&offset=2', key)).body)).toEqual(['payments-approval', own[0]]);
    expect(idsOf((await list('?limit=2&offset=4', key)).body)).toEqual([own[1]]);
    expect((await list('?limit=1&offset=9', key)).body).toMatchObject({ items: [], total: 5 });
    expect(idsOf((await list('', test.key)).body)).toEqual(builtIn);
  });

  it("404: for an invalid id, another account's template, and one of the other mode", async () => {
    const { template_id } = (await post({ name: 'Mine' })).body;
    const other = await api.createAccount();
    const test = await api.createKey({ scopes: ['admin:*'], mode: 'test' });
    for (const key of [other.key, test.key]) {
      expectError(await api.call({ url: `/v1/templates/${template_id}`, key }), 'template_not_found');
    }
    expectError(await api.call({ url: '/v1/templates/payments' }), 'template_not_found');
    expectError(
      await api.call({ url: `/v1/templates/${template_id.replace('tmpl_', 'gate_')}` }),
      'template_not_found',
    );
  });
});

describe('POST /gates with template_id', () => {
  const constraints = {
    allowed_domains: ['a.example', 'b.example'],
    spend_limits: { per_transaction_usd: 5, alert_at: 0.5 },
  };
  const mine = async (body: object = {}) =>
    (await post({ name: 'Mine', trust_level: 'L2', constraints, ...body })).body.template_id as string;

  it('takes level and constraints of the template where the body is silent', async () => {
    const { status, body } = await gateFrom(await mine());
    expect(status).toBe(201);
    expect(body).toMatchObject({ trust_level: 'L2', constraints });
    expect(body.name).toBe('Orders');
    expect(body.description).toBe(null);
  });

  it('400: where neither says the level', async () => {
    expectError(await gateFrom(await mine({ trust_level: null })), 'invalid_request', 'trust_level');
    expect((await gateFrom(await mine(), { trust_level: null })).status).toBe(201);
  });

  it("404: for another account's template, and for none", async () => {
    const other = await api.createAccount();
    const foreign = (await post({ name: 'Theirs', trust_level: 'L1' }, other.key)).body.template_id;
    expectError(await gateFrom(foreign), 'template_not_found', 'template_id');
    expectError(await gateFrom('read-only'), 'template_not_found', 'template_id');
    expectError(await gateFrom(''), 'template_not_found', 'template_id');
  });
});
