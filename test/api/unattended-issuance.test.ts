import { describe, expect, it } from 'vitest';
import { hourMs } from '../../shared/model/time.ts';
import { expectError } from '../support/service/expect-error.ts';
import { useApi } from '../support/service/use-api.ts';

const api = useApi();

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

  it.each<[object, string]>([
    [{ permissions: undefined }, 'permissions'],
    [{ agent_type: '' }, 'agent_type'],
    [{ expires_in: '24 hours' }, 'expires_in'],
    [{ issuer_id: `iss_${'0'.repeat(26)}` }, 'issuer_id'],
    [{ expires_in_days: 1 }, 'expires_in_days'],
    [{ public_key: 'ed25519:AAAA' }, 'public_key'],
  ])('400: refuses %j, naming %s', async (more, param) => {
    expectError(await post('/api/passports', { ...unattended, ...more }), 'invalid_request', param);
  });

  it('issues in the world of its key', async () => {
    const { key } = await api.createKey({ scopes: ['passports:issue'], mode: 'test' });
    const { body } = await post('/api/passports', unattended, key);
    expect(claimsOf(body.jwt).mode).toBe('test');
    expectError(await api.call({ url: `/v1/passports/${body.passport_id}` }), 'passport_not_found');
  });

  it.each([
    ['GET', '/api/passports'],
    ['POST', '/api/v1/passports'],
  ])('404: nothing else is outside /v1: %s %s', async (method, url) => {
    expectError(await api.call({ method, url, body: method === 'POST' ? {} : undefined }), 'route_not_found');
  });
});
