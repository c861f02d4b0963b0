import { inspect } from 'node:util';
import { describe, expect, it } from 'vitest';
import { renderPublicKey } from '../../shared/crypto/agent-key.ts';
import { sha256Hex } from '../../shared/crypto/content-hash.ts';
import { keyset } from '../../shared/crypto/keyset.ts';
import { openPassportToken } from '../../shared/crypto/passport-token.ts';
import { limits } from '../../shared/model/limits.ts';
import { dayMs, hourMs } from '../../shared/model/time.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { standingIn } from '../support/data/model-service.ts';
import { startOwnApi } from '../support/service/api.ts';
import { expectError } from '../support/service/expect-error.ts';
import { useApi } from '../support/service/use-api.ts';

const api = useApi(startOwnApi);

/** Expiries are cut to the second, as in tokens. */
const wholeSecond = (ms: number) => Math.floor(ms / 1_000) * 1_000;
const post = (body: unknown, key?: string) =>
  api.call({ method: 'POST', url: '/v1/passports', body, ...(key === undefined ? {} : { key }) });

let agents = 0;
const newAgent = () => `issued-${agents++}`;
const reference = (more: object = {}) => ({ agent_id: newAgent(), permissions: ['orders:create'], ...more });
const decodePart = (jwt: string, part: number) =>
  JSON.parse(Buffer.from(jwt.split('.')[part] ?? '', 'base64url').toString());

describe('the reference variant', () => {
  it('201: answers the union of both shapes, with the token and the private key', async () => {
    const { issuer_id } = await api.createIssuer({ domain: 'acme.example' });
    const sent = {
      issuer_id,
      agent_id: newAgent(),
      agent_name: 'Buyer',
      permissions: ['orders:create', 'catalog:*', 'orders:create'],
      expires_in_days: 30,
      trust_tier: 'L2',
      metadata: { team: 'ops' },
      constraints: { allowed_domains: ['API.example.com'], spend_limits: { per_transaction_usd: 25.5 } },
    };
    const reply = await post(sent);
    expect(reply.status).toBe(201);
    const { jwt, private_key, ...shown } = reply.body;
    expect(shown).toEqual({
      suspended_by: [],
      passport_id: expect.stringMatching(/^pass_[0-9a-z]{26}$/),
      id: shown.passport_id,
      agent_id: sent.agent_id,
      agent_name: 'Buyer',
      issuer_id,
      subject: { agent_id: sent.agent_id },
      permissions: ['orders:create', 'catalog:*'],
      constraints: { allowed_domains: ['api.example.com'], spend_limits: { per_transaction_usd: 25.5 } },
      trust_tier: 'L2',
      public_key: expect.stringMatching(/^ed25519:[\w-]{43}$/),
      owner: null,
      user: null,
      wallet_id: null,
      status: 'active',
      issued_at: expect.stringMatching(/\.\d{3}Z$/),
      created_at: shown.issued_at,
      expires_at: expect.stringMatching(/\.000Z$/),
      metadata: { team: 'ops' },
    });
    expect(Date.parse(shown.expires_at)).toBe(wholeSecond(Date.parse(shown.issued_at)) + 30 * dayMs);
    expect(private_key).toMatch(/^ed25519_private:[\w-]{43}$/);
    const seed = Buffer.from(private_key.slice('ed25519_private:'.length), 'base64url');
    expect(renderPublicKey(api.deps.ed25519.signer(seed).publicKey)).toBe(shown.public_key);
    expect(jwt.split('.')).toHaveLength(3);
  });

  it('signs a token with the claims of the passport', async () => {
    const { issuer_id } = await api.createIssuer({ domain: 'acme.example' });
    const { body } = await post(reference({ issuer_id, trust_tier: 'L2', expires_in: '12h' }));
    const open = openPassportToken(body.jwt);
    const found = keyset(api.deps.ed25519, api.deps.signingKeys.all()).find('passport', open?.kid ?? '');
    expect(open !== null && found?.verify(open.signingInput, open.signature)).toBe(true);
    expect(decodePart(body.jwt, 0)).toEqual({ alg: 'EdDSA', typ: 'passport+jwt', kid: open?.kid });
    const issuedAtS = Math.floor(Date.parse(body.issued_at) / 1_000);
    expect(decodePart(body.jwt, 1)).toEqual({
      iss: issuer_id,
      iss_domain: 'acme.example',
      sub: body.agent_id,
      jti: body.passport_id,
      iat: issuedAtS,
      nbf: issuedAtS,
      exp: Date.parse(body.expires_at) / 1_000,
      agent_name: body.agent_id,
      permissions: ['orders:create'],
      trust_tier: 'L2',
      constraints: {},
      acct: expect.stringMatching(/^acct_/),
      mode: 'live',
      cnf: { jwk: { kty: 'OKP', crv: 'Ed25519', x: body.public_key.slice('ed25519:'.length) } },
    });
  });

  it('needs agent_id and permissions only', async () => {
    const { body } = await post(reference());
    // The claim is always there, so that a reader need not tell a missing one from none.
    expect(decodePart(body.jwt, 1)).toHaveProperty('iss_domain', null);
    expect(body).toMatchObject({
      agent_name: body.agent_id,
      trust_tier: 'L1',
      metadata: {},
      constraints: {},
    });
    const issuer = await api.call({ url: `/v1/issuers/${body.issuer_id}` });
    expect(issuer.body).toMatchObject({ name: 'Default issuer', trust_tier: 'L3', domain: null });
    expect(Date.parse(body.expires_at)).toBe(wholeSecond(Date.parse(body.issued_at)) + 90 * dayMs);
  });

  it('makes one default issuer, however many ask at once', async () => {
    const { key } = await api.createAccount();
    const all = await Promise.all(Array.from({ length: 8 }, () => post(reference(), key)));
    expect(all.map((reply) => reply.status)).toEqual(Array(8).fill(201));
    expect(new Set(all.map((reply) => reply.body.issuer_id)).size).toBe(1);
    // And each passport has a key pair of its own.
    expect(new Set(all.map((reply) => reply.body.public_key)).size).toBe(8);
  });

  it("takes the agent's own public key and then has no private one", async () => {
    const public_key = renderPublicKey(api.deps.ed25519.signer(api.deps.random.bytes(32)).publicKey);
    const { status, body } = await post(reference({ public_key }));
    expect(status).toBe(201);
    expect(body.public_key).toBe(public_key);
    expect(body).not.toHaveProperty('private_key');
  });

  it('keeps neither the private key nor the token anywhere, only the hash of the token', async () => {
    const { body } = await post(reference());
    const again = await api.call({ url: `/v1/passports/${body.id}` });
    expect(again.body).not.toHaveProperty('private_key');
    expect(again.body).not.toHaveProperty('jwt');
    const tables = await api.deps.sql<{ name: string }[]>`
      SELECT table_name AS name FROM information_schema.tables WHERE table_schema = 'public'`;
    let dump = '';
    for (const { name } of tables) {
      const rows = await api.deps.sql`SELECT t::text AS text FROM ${api.deps.sql(name)} t`;
      dump += rows.map((row) => row['text']).join('\n');
    }
    expect(dump).toContain(sha256Hex(body.jwt));
    expect(dump).not.toContain(body.jwt.split('.')[2]);
    expect(dump).not.toContain(body.private_key.slice('ed25519_private:'.length));
  });
});

it('logs neither the private key nor the token nor the API key, at any level', async () => {
  const lines: string[] = [];
  const note = (fields: object, message: string) => {
    lines.push(inspect({ fields, message }, { depth: 20, showHidden: true }));
  };
  const logger: Logger = { debug: note, info: note, warn: note, error: note, child: () => logger };
  const logging = await startOwnApi({ logger });
  const headers = { 'idempotency-key': 'logged' };
  const issue = (body: object) => logging.call({ url: '/v1/passports', body, headers });
  const { body } = await issue({ agent_id: 'logged', permissions: [] });
  await issue({ agent_id: 'logged', permissions: [] });
  await issue({ agent_id: 'logged', permissions: ['a:b'] });
  await logging.deps.sql`ALTER TABLE passports RENAME TO passports_gone`;
  const failed = await logging.call({ url: '/v1/passports', body: { agent_id: 'failing', permissions: [] } });
  expect(failed.status).toBe(500);
  await logging.close();
  const log = lines.join('\n');
  expect(log).toContain('a request failed');
  expect(log).toContain('/v1/passports');
  for (const secret of [body.private_key.split(':')[1], ...body.jwt.split('.'), logging.adminKey.slice(12)]) {
    expect(secret.length).toBeGreaterThan(20);
    expect(log).not.toContain(secret);
  }
});

describe('the machine-description variant', () => {
  const machine = async (more: object = {}) => ({
    issuer_id: (await api.createIssuer()).issuer_id,
    subject: { model: 'm-1', operator: { name: 'Acme' } },
    permissions: ['orders:create'],
    ...more,
  });

  it('201: keeps the subject, and names an agent that has no name', async () => {
    const { status, body } = await post(await machine());
    expect(status).toBe(201);
    expect(body.agent_id).toBe(body.passport_id.replace('pass_', 'agent_'));
    expect(body.subject).toEqual({ model: 'm-1', operator: { name: 'Acme' }, agent_id: body.agent_id });
    expect(Date.parse(body.expires_at)).toBe(wholeSecond(Date.parse(body.issued_at)) + 90 * dayMs);
  });

  it('takes the agent_id from the subject, where it conflicts as anywhere else', async () => {
    const agent_id = newAgent();
    const { body } = await post(await machine({ subject: { agent_id } }));
    expect(body.agent_id).toBe(agent_id);
    expectError(await post(reference({ agent_id })), 'agent_id_conflict', 'agent_id');
  });

  it('cuts expires_at to the second, and takes null for never', async () => {
    const cut = await post(await machine({ expires_at: '2099-01-01T00:00:00.987+01:00' }));
    expect(cut.body.expires_at).toBe('2098-12-31T23:00:00.000Z');
    const never = await post(await machine({ expires_at: null }));
    expect(never.body.expires_at).toBe(null);
    expect(decodePart(never.body.jwt, 1)).not.toHaveProperty('exp');
  });

  it.each([
    [{ issuer_id: undefined }, 'issuer_id'],
    [{ subject: 'agent' }, 'subject'],
    [{ subject: { agent_id: 'a'.repeat(129) } }, 'subject.agent_id'],
    [{ subject: { text: 'x'.repeat(limits.freeFormBytesMax) } }, 'subject'],
    [{ expires_at: '2020-01-01T00:00:00Z' }, 'expires_at'],
    [{ expires_at: 4_102_444_800 }, 'expires_at'],
    [{ agent_id: 'a' }, 'agent_id'],
  ])('400: refuses %j, naming %s', async (more, param) => {
    expectError(await post(await machine(more)), 'invalid_request', param);
  });
});

describe('400: a request that is not valid', () => {
  it.each<[object, string]>([
    [{ agent_id: undefined }, 'agent_id'],
    [{ agent_id: '😀'.repeat(65) }, 'agent_id'],
    [{ agent_name: 'a'.repeat(201) }, 'agent_name'],
    [{ permissions: ['orders:read', 'Orders:read'] }, 'permissions.1'],
    [{ permissions: Array.from({ length: 65 }, (_, i) => `a:${i}`) }, 'permissions'],
    [{ expires_in_days: 0 }, 'expires_in_days'],
    [{ expires_in_days: 3_651 }, 'expires_in_days'],
    [{ expires_in: '1w' }, 'expires_in'],
    [{ expires_in: '1h', expires_in_days: 1 }, 'expires_in'],
    [{ expires_at: '2099-01-01T00:00:00Z' }, 'expires_at'],
    [{ trust_tier: 'L4' }, 'trust_tier'],
    [{ metadata: { text: 'x'.repeat(limits.freeFormBytesMax) } }, 'metadata'],
    [{ private_key: 'ed25519_private:x' }, 'private_key'],
    [{ public_key: `ed25519:${Buffer.alloc(32).toString('base64url')}` }, 'public_key'],
    [{ constraints: { spend_limit: {} } }, 'constraints.spend_limit'],
  ])('refuses %j, naming %s', async (more, param) => {
    expectError(await post(reference(more)), 'invalid_request', param);
  });

  it('refuses a tier above that of the issuer', async () => {
    const { issuer_id } = await api.createIssuer({ trust_tier: 'L2' });
    expectError(await post(reference({ issuer_id, trust_tier: 'L3' })), 'invalid_request', 'trust_tier');
    expect((await post(reference({ issuer_id, trust_tier: 'L2' }))).status).toBe(201);
  });

  it('refuses a suspended issuer', async () => {
    const { issuer_id } = await api.createIssuer();
    await api.call({ method: 'PUT', url: `/v1/issuers/${issuer_id}`, body: { status: 'suspended' } });
    expectError(await post(reference({ issuer_id })), 'invalid_request', 'issuer_id');
  });

  it('refuses a token of more than 8 KiB', async () => {
    const permissions = Array.from(
      { length: 64 },
      (_, i) => `${String(i).padStart(60, 'a')}:${'b'.repeat(60)}`,
    );
    expectError(await post(reference({ permissions })), 'invalid_request');
    const fewer = await post(reference({ permissions: permissions.slice(0, 40) }));
    expect(fewer.status).toBe(201);
    expect(openPassportToken(fewer.body.jwt)).not.toBe(null);
  });
});

describe('409: agent_id_conflict', () => {
  it('while another passport of that agent is active or suspended', async () => {
    const { id, agent_id } = await api.issuePassport({ agent_id: newAgent() });
    expectError(await post(reference({ agent_id })), 'agent_id_conflict', 'agent_id');
    await api.call({ method: 'POST', url: `/v1/passports/${id}/suspend` });
    expectError(await post(reference({ agent_id })), 'agent_id_conflict', 'agent_id');
    await api.call({ method: 'POST', url: `/v1/passports/${id}/revoke` });
    expect((await post(reference({ agent_id }))).status).toBe(201);
  });

  it('until it has expired, to the second', async () => {
    const first = await api.issuePassport({ agent_id: newAgent(), expires_in: '1h' });
    const { agent_id } = first;
    const leftMs = () => Date.parse(first.expires_at) - api.deps.clock.now();
    api.advance(leftMs() - 30_000);
    expectError(await post(reference({ agent_id })), 'agent_id_conflict', 'agent_id');
    api.advance(leftMs());
    const second = await post(reference({ agent_id }));
    expect(second.status).toBe(201);
    expect((await api.call({ url: `/v1/passports/${first.id}` })).body.status).toBe('expired');
    const revoked = await api.call({ method: 'POST', url: `/v1/passports/${first.id}/revoke` });
    expect(revoked.body.status).toBe('revoked');
  });

  it('and the expired one permits nothing where a clock is behind, also if it was suspended before', async () => {
    const first = await api.issuePassport({ agent_id: newAgent(), expires_in: '1h' });
    const gate = await api.createGate();
    await api.call({ method: 'POST', url: `/v1/passports/${first.id}/suspend` });
    api.advance(hourMs);
    expect((await post(reference({ agent_id: first.agent_id }))).status).toBe(201);
    api.advance(-hourMs / 2);
    const url = `/v1/gates/${gate.gate_id}/check`;
    const body = { passport: first.jwt, request: { permission_key: 'orders:create' } };
    expect((await api.call({ url, body })).body).toMatchObject({
      decision: 'BLOCK',
      reason: 'passport_revoked',
    });
    const { body: signed } = await api.call({ url: '/v1/sync/snapshot' });
    expect(standingIn(JSON.parse(signed.snapshot), first.passport_id)?.standing).toBe('revoked');
  });

  it('lets one of many at once win', async () => {
    const agent_id = newAgent();
    const all = await Promise.all(Array.from({ length: 6 }, () => post(reference({ agent_id }))));
    expect(all.map((reply) => reply.status).toSorted()).toEqual([201, 409, 409, 409, 409, 409]);
  });
});
