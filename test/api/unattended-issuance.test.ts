import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { hourMs } from '../../shared/model/time.ts';
import { type Api, startApi } from '../support/api.ts';
import { expectError } from '../support/expect-error.ts';

let api: Api;
let issuerId: string;
beforeAll(async () => {
  api = await startApi();
  issuerId = (await api.createIssuer({ domain: 'acme.example' })).issuer_id;
});
afterAll(() => api.close());

const post = (url: string, body: unknown, key?: string) =>
  api.call({ method: 'POST', url, body, ...(key === undefined ? {} : { key }) });
const claimsOf = (jwt: string) => JSON.parse(Buffer.from(jwt.split('.')[1] ?? '', 'base64url').toString());

describe('POST /api/passports', () => {
  const unattended = {
    agent_name: 'Nightly importer',
    agent_type: 'custom',
    permissions: ['orders:read', 'orders:create'],
    expires_in: '24h',
  };

  it('201: issues to an API key what POST /v1/passports would issue', async () => {
    const here = await post('/api/passports', unattended);
    const there = await post('/v1/passports', unattended);
    expect([here.status, there.status]).toEqual([201, 201]);
    expect(Object.keys(here.body)).toEqual(Object.keys(there.body));
    const { body } = here;
    expect(body).toMatchObject({
      passport_id: expect.stringMatching(/^pass_/),
      agent_id: body.passport_id.replace('pass_', 'agent_'),
      agent_name: 'Nightly importer',
      subject: { agent_type: 'custom', agent_id: body.agent_id },
      permissions: ['orders:read', 'orders:create'],
      trust_tier: 'L1',
      status: 'active',
      private_key: expect.stringMatching(/^ed25519_private:/),
    });
    const durationMs = Date.parse(body.expires_at) - Date.parse(body.issued_at);
    expect(Math.abs(durationMs - 24 * hourMs)).toBeLessThan(1_000);
    expect(claimsOf(body.jwt)).toMatchObject({
      sub: body.agent_id,
      agent_name: 'Nightly importer',
      mode: 'live',
    });
    const { body: read } = await api.call({ url: `/v1/passports/${body.passport_id}` });
    expect(read.subject).toEqual(body.subject);
  });

  it('201: needs permissions only, because the path implies unattended issuance', async () => {
    const { status, body } = await post('/api/passports', { permissions: ['orders:read'] });
    expect(status).toBe(201);
    expect(body.subject).toEqual({ agent_id: body.agent_id });
    expectError(await post('/v1/passports', { permissions: ['orders:read'] }), 'invalid_request', 'agent_id');
  });

  it('201: takes agent_id and trust_tier besides', async () => {
    const sent = { ...unattended, agent_id: 'importer-1', trust_tier: 'L2' };
    expect((await post('/api/passports', sent)).body).toMatchObject({
      agent_id: 'importer-1',
      trust_tier: 'L2',
    });
    expectError(await post('/api/passports', sent), 'agent_id_conflict', 'agent_id');
    expectError(await post('/v1/passports', sent), 'agent_id_conflict', 'agent_id');
  });

  it('201: takes the machine description, which its subject gives away', async () => {
    const machine = { issuer_id: issuerId, subject: { model: 'm-1' }, permissions: [], expires_at: null };
    const { status, body } = await post('/api/passports', machine);
    expect(status).toBe(201);
    expect(body).toMatchObject({ issuer_id: issuerId, subject: { model: 'm-1' }, expires_at: null });
  });

  it.each<[object, string]>([
    [{ permissions: undefined }, 'permissions'],
    [{ permissions: ['orders'] }, 'permissions.0'],
    [{ agent_type: '' }, 'agent_type'],
    [{ agent_type: 7 }, 'agent_type'],
    [{ agent_type: 1 }, 'agent_type'],
    [{ agent_id: '' }, 'agent_id'],
    [{ agent_name: '' }, 'agent_name'],
    [{ expires_in: '24 hours' }, 'expires_in'],
    [{ expires_in: 24 }, 'expires_in'],
    [{ trust_tier: 'L4' }, 'trust_tier'],
    [{ issuer_id: `iss_${'0'.repeat(26)}` }, 'issuer_id'],
    [{ expires_in_days: 1 }, 'expires_in_days'],
    [{ metadata: {} }, 'metadata'],
    [{ constraints: {} }, 'constraints'],
    [{ public_key: 'ed25519:AAAA' }, 'public_key'],
  ])('400: refuses %j, naming %s', async (more, param) => {
    expectError(await post('/api/passports', { ...unattended, ...more }), 'invalid_request', param);
  });

  it.each(['[]', '"text"', 'null', ''])('400: refuses the body %j', async (body) => {
    expectError(await post('/api/passports', body), 'invalid_request', body === '' ? 'permissions' : 'body');
  });

  it('401 and 403: wants a key that may issue', async () => {
    expectError(await api.call({ url: '/api/passports', body: unattended, key: null }), 'unauthorized');
    const headers = { cookie: 'session=anything' };
    expectError(
      await api.call({ url: '/api/passports', body: unattended, key: null, headers }),
      'unauthorized',
    );
    const { key } = await api.createKey({ scopes: ['passports:read'] });
    expectError(await post('/api/passports', unattended, key), 'insufficient_scope');
    const creating = await api.createKey({ scopes: ['passports:create'] });
    expect((await post('/api/passports', unattended, creating.key)).status).toBe(201);
  });

  it('issues in the world of its key', async () => {
    const { key } = await api.createKey({ scopes: ['passports:issue'], mode: 'test' });
    const { body } = await post('/api/passports', unattended, key);
    expect(claimsOf(body.jwt).mode).toBe('test');
    expectError(await api.call({ url: `/v1/passports/${body.passport_id}` }), 'passport_not_found');
  });

  it.each([
    ['GET', '/api/passports'],
    ['POST', '/api/gates'],
    ['POST', '/passports'],
    ['POST', '/api/v1/passports'],
  ])('404: nothing else is outside /v1: %s %s', async (method, url) => {
    expectError(await api.call({ method, url, body: method === 'POST' ? {} : undefined }), 'route_not_found');
  });
});

describe('the variants in the words of the contract', () => {
  it.each<[string, string, () => object]>([
    [
      'reference',
      '/v1/passports',
      () => ({
        issuer_id: issuerId,
        agent_id: 'agent-reference',
        agent_name: 'Shopping assistant',
        permissions: ['orders:create'],
        expires_in_days: 30,
        trust_tier: 'L2',
        metadata: { team: 'growth' },
      }),
    ],
    [
      'machine description',
      '/v1/passports',
      () => ({
        issuer_id: issuerId,
        subject: { model: 'model-x', version: '1.0', operator: 'Acme' },
        permissions: ['orders:create'],
        constraints: { spend_limits: { per_transaction_usd: 25 }, allowed_domains: ['api.example.com'] },
        expires_at: '2099-01-01T00:00:00Z',
      }),
    ],
    [
      'unattended REST example',
      '/api/passports',
      () => ({
        agent_name: 'ci-agent',
        agent_type: 'custom',
        permissions: ['orders:read'],
        expires_in: '24h',
      }),
    ],
    [
      'tool call',
      '/v1/passports',
      () => ({
        issuer_id: issuerId,
        agent_id: 'agent-tool',
        permissions: ['orders:read'],
        expires_in: '12h',
      }),
    ],
  ])('%s: each field is answered as it was sent', async (_variant, url, body) => {
    const sent = body();
    const reply = await post(url, sent);
    expect(reply.status).toBe(201);
    const { expires_in_days, expires_in, agent_type, subject, expires_at, ...kept } = sent as Record<
      string,
      unknown
    >;
    expect(reply.body).toMatchObject(kept);
    expect(reply.body.subject).toEqual({
      ...(subject as object | undefined),
      ...(agent_type === undefined ? {} : { agent_type }),
      agent_id: reply.body.agent_id,
    });
    if (typeof expires_at === 'string')
      expect(Date.parse(reply.body.expires_at)).toBe(Date.parse(expires_at));
    expect(reply.body.jwt.split('.')).toHaveLength(3);
    const verdict = await api.call({ url: `/v1/passports/${reply.body.id}/verify` });
    expect(verdict.body).toMatchObject({ valid: true, revoked: false, expired: false, reason: null });
  });
});
