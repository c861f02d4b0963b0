import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { verifyCatalog } from '../../clients/node/src/verify.ts';
import { verifyAttestationsCommand } from '../../control-plane/cli/verify-attestations.ts';
import { loadSigningKeys } from '../../control-plane/signing/load-signing-keys.ts';
import { limits } from '../../shared/model/limits.ts';
import { type KeyPurpose, keyPurposes } from '../../shared/model/signing-key.ts';
import { type Api, type Reply, startApi } from '../support/api.ts';
import { verifyExport } from '../support/independent-verifier.mjs';
import { type SecondControlPlane, secondControlPlane } from '../support/second-control-plane.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const url = '/v1/signing-keys/rotate';
const order = { permission_key: 'orders:create' };

let api: Api;
beforeEach(async () => {
  api = await startApi();
});
afterEach(() => api.close());

const rotate = (body: object) => api.call({ url, body });
const jwks = async (): Promise<Reply> => api.call({ url: '/.well-known/jwks.json', key: null });
const published = async (kid: string) =>
  (await jwks()).body.keys.find((key: { kid: string }) => key.kid === kid);
const current = (purpose: KeyPurpose) => api.deps.signingKeys.current(purpose).kid;
const kidOf = (token: string) =>
  JSON.parse(Buffer.from(token.split('.')[0] ?? '', 'base64url').toString()).kid;
const check = async (gateId: string, passport: string) =>
  (await api.call({ url: `/v1/gates/${gateId}/check`, body: { passport, request: order } })).body;
/** Rotates, and lets the new key take over. */
const rotateFully = async (purpose: KeyPurpose) => {
  const { body } = await rotate({ purpose });
  api.advance(limits.signingKeyLeadMs);
  return body;
};

describe('POST /signing-keys/rotate', () => {
  it.each(keyPurposes)('201: publishes the next key for %s, which takes over in 60 s', async (purpose) => {
    const old = current(purpose);
    const beforeMs = api.deps.clock.now();
    const reply = await rotate({ purpose });
    const afterMs = api.deps.clock.now();
    expect(reply.status).toBe(201);
    expect(reply.body).toEqual({
      purpose,
      kid: expect.stringMatching(/^[\w-]{43}$/),
      not_before: expect.stringMatching(/\.\d{3}Z$/),
      previous: { kid: old, retired_at: reply.body.not_before, compromised: false },
    });
    const leadMs = Date.parse(reply.body.not_before) - 60_000;
    expect(leadMs).toBeGreaterThanOrEqual(beforeMs);
    expect(leadMs).toBeLessThanOrEqual(afterMs);
    expect(current(purpose)).toBe(old);
    api.advance(limits.signingKeyLeadMs / 2);
    expect(current(purpose)).toBe(old);
    api.advance(limits.signingKeyLeadMs / 2);
    expect(current(purpose)).toBe(reply.body.kid);
    for (const other of keyPurposes.filter((each) => each !== purpose)) {
      expect((await rotate({ purpose: other })).body.previous.kid).toBe(current(other));
    }
  });

  it('shows both keys in the JWKS at once, which may be kept for half of that time', async () => {
    const { body } = await rotate({ purpose: 'catalog' });
    expect(await published(body.kid)).toMatchObject({
      use: 'sig',
      purpose: 'catalog',
      nbf: Math.floor(Date.parse(body.not_before) / 1_000),
      retired_at: null,
      compromised: false,
    });
    expect(await published(body.previous.kid)).toMatchObject({
      purpose: 'catalog',
      retired_at: body.not_before,
      compromised: false,
    });
    expect((await jwks()).headers['cache-control']).toBe('public, max-age=30');
  });

  it('sends both public keys to every sidecar, the new one first, and no private key', async () => {
    const { body } = await rotate({ purpose: 'sync' });
    const [next, previous, ...more] = await api.changes('global');
    expect(more).toEqual([]);
    const takesOverMs = Date.parse(body.not_before);
    expect(next).toEqual({
      kind: 'signing_key.put',
      body: {
        kid: body.kid,
        purpose: 'sync',
        publicKey: expect.stringMatching(/^[\w-]{43}$/),
        notBeforeMs: takesOverMs,
        retiredAtMs: null,
        compromised: false,
      },
    });
    expect(previous).toMatchObject({
      kind: 'signing_key.put',
      body: { kid: body.previous.kid, retiredAtMs: takesOverMs, compromised: false },
    });
    expect((await jwks()).body.keys.map((key: { purpose: string }) => key.purpose)).not.toContain('sync');
  });

  it('200: answers the rotation in progress, and starts another one after it', async () => {
    const first = await rotate({ purpose: 'passport' });
    const second = await rotate({ purpose: 'passport' });
    expect([first.status, second.status]).toEqual([201, 200]);
    expect(second.body).toEqual(first.body);
    expect(await api.changes('global')).toHaveLength(2);
    api.advance(limits.signingKeyLeadMs);
    const third = await rotate({ purpose: 'passport' });
    expect(third.status).toBe(201);
    expect(third.body.previous.kid).toBe(first.body.kid);
  });

  it('finds everything again after a restart, before the new key takes over and after it', async () => {
    const { body } = await rotate({ purpose: 'attestation' });
    const restarted = await loadSigningKeys(api.deps);
    expect(restarted.all()).toEqual(api.deps.signingKeys.all());
    expect(restarted.current('attestation').kid).toBe(body.previous.kid);
    api.advance(limits.signingKeyLeadMs);
    expect((await loadSigningKeys(api.deps)).current('attestation').kid).toBe(body.kid);
  });

  it('stores the new private half only sealed', async () => {
    const { body } = await rotate({ purpose: 'passport' });
    const [row] = await api.deps
      .sql`SELECT sealed_private_key AS sealed FROM signing_keys WHERE kid = ${body.kid}`;
    expect(row?.['sealed']).toMatch(/^v1\.[\w-]{16}\.[\w-]{64}$/);
    expect(api.deps.sealer.open(row?.['sealed'], `signing_keys/${body.kid}`)).toHaveLength(32);
    expect(() => api.deps.sealer.open(row?.['sealed'], `signing_keys/${body.previous.kid}`)).toThrow();
  });
});

describe('signatures from before an ordinary rotation', () => {
  it('passports: still verify, beside those of the new key', async () => {
    const gate = await api.createGate();
    const old = await api.issuePassport();
    const { kid, previous } = await rotateFully('passport');
    const fresh = await api.issuePassport();
    expect([kidOf(old.jwt), kidOf(fresh.jwt)]).toEqual([previous.kid, kid]);
    for (const { jwt } of [old, fresh]) {
      expect(await check(gate.gate_id, jwt)).toMatchObject({ decision: 'PERMIT' });
    }
  });

  it('catalogs: still verify with the JWKS of today', async () => {
    const gate = await api.createGate();
    const publish = async () =>
      (
        await api.call({
          url: `/v1/gates/${gate.gate_id}/catalog`,
          body: { permissions: [{ key: 'orders:create' }] },
        })
      ).body;
    const old = await publish();
    const { kid, previous } = await rotateFully('catalog');
    const fresh = await publish();
    expect([old.signing_key_id, fresh.signing_key_id]).toEqual([previous.kid, kid]);
    const { body: keys } = await jwks();
    for (const catalog of [old, fresh]) {
      expect(await verifyCatalog(catalog, keys, { gateId: gate.gate_id })).toMatchObject({ valid: true });
    }
  });

  it('attestations: one chain across the rotation verifies offline, by our command and by an independent one', async () => {
    const gate = await api.createGate();
    const { jwt } = await api.issuePassport();
    await check(gate.gate_id, jwt);
    const { kid, previous } = await rotateFully('attestation');
    await check(gate.gate_id, jwt);
    const file = await exported();
    const lines = file
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(lines[0].manifest.key_ids).toEqual([previous.kid, kid]);
    expect([lines[2].signing_key_id, lines[3].signing_key_id]).toEqual([previous.kid, kid]);
    expect(verifyExport(Buffer.from(file), (await jwks()).body)).toEqual({ chains: 1, records: 2 });
    expect(await verifyOffline(file)).toEqual({
      code: 0,
      out: 'OK: 2 records in 1 chain. Every hash, link and signature verifies.\n',
    });
  });

  it('attestations and audit: verify also once the clock was set back behind the new key', async () => {
    await rotateFully('attestation');
    const gate = await api.createGate();
    await check(gate.gate_id, (await api.issuePassport()).jwt);
    api.advance(-2 * limits.signingKeyLeadMs);
    for (const file of [await exported(), (await api.call({ url: '/v1/audit/export' })).body]) {
      expect(await verifyOffline(file)).toMatchObject({ code: 0 });
    }
    expect(verifyExport(Buffer.from(await exported()), (await jwks()).body)).toMatchObject({ records: 1 });
  });
});

describe('POST /signing-keys/rotate with compromised', () => {
  it('201: ends the old key and lets the new one sign at once, and says so in the JWKS', async () => {
    const old = current('passport');
    const beforeMs = api.deps.clock.now();
    const reply = await rotate({ purpose: 'passport', compromised: true });
    expect(reply.status).toBe(201);
    expect(reply.body.previous).toEqual({ kid: old, retired_at: reply.body.not_before, compromised: true });
    expect(Date.parse(reply.body.not_before)).toBeGreaterThanOrEqual(beforeMs);
    expect(Date.parse(reply.body.not_before)).toBeLessThanOrEqual(api.deps.clock.now());
    expect(current('passport')).toBe(reply.body.kid);
    expect(await published(old)).toMatchObject({ compromised: true, retired_at: reply.body.not_before });
    expect(await published(reply.body.kid)).toMatchObject({ compromised: false, retired_at: null });
  });

  it('blocks every token of the old key, in the chain of the gate, and permits those of the new one', async () => {
    const gate = await api.createGate();
    const old = await api.issuePassport();
    expect(await check(gate.gate_id, old.jwt)).toMatchObject({ decision: 'PERMIT' });
    await rotate({ purpose: 'passport', compromised: true });
    const blocked = await check(gate.gate_id, old.jwt);
    expect(blocked).toMatchObject({ decision: 'BLOCK', reason: 'passport_unknown_key' });
    const record = (await api.call({ url: `/v1/attestations/${blocked.attestation_id}` })).body;
    expect(record).toMatchObject({ chain_id: gate.gate_id, passport_id: null });
    const fresh = await api.issuePassport();
    expect(await check(gate.gate_id, fresh.jwt)).toMatchObject({ decision: 'PERMIT' });
  });

  it('200: does not burn the new key too when it is repeated, and does after a minute', async () => {
    const first = await rotate({ purpose: 'passport', compromised: true });
    const second = await rotate({ purpose: 'passport', compromised: true });
    const ordinary = await rotate({ purpose: 'passport' });
    expect([second.status, ordinary.status]).toEqual([200, 200]);
    expect([second.body, ordinary.body]).toEqual([first.body, first.body]);
    api.advance(limits.signingKeyLeadMs);
    const third = await rotate({ purpose: 'passport', compromised: true });
    expect(third.status).toBe(201);
    expect(third.body.previous).toMatchObject({ kid: first.body.kid, compromised: true });
  });

  it('is not delayed by a rotation in progress, and ends the next key together with the current one', async () => {
    const coming = await rotate({ purpose: 'passport' });
    const reply = await rotate({ purpose: 'passport', compromised: true });
    expect(reply.status).toBe(201);
    expect(reply.body.previous.kid).toBe(coming.body.previous.kid);
    expect(await published(coming.body.kid)).toMatchObject({ compromised: true });
    expect((await rotate({ purpose: 'passport', compromised: true })).body).toEqual(reply.body);
    expect(current('passport')).toBe(reply.body.kid);
    api.advance(2 * limits.signingKeyLeadMs);
    expect(current('passport')).toBe(reply.body.kid);
  });

  it('does not affect a key that retired before it', async () => {
    const gate = await api.createGate();
    const old = await api.issuePassport();
    await rotateFully('passport');
    await rotate({ purpose: 'passport', compromised: true });
    expect(await check(gate.gate_id, old.jwt)).toMatchObject({ decision: 'PERMIT' });
  });

  it('makes the verifier count the records of the old key, and catalogs of the old key fail', async () => {
    const gate = await api.createGate();
    const { jwt } = await api.issuePassport();
    await check(gate.gate_id, jwt);
    const catalog = await api.call({
      url: `/v1/gates/${gate.gate_id}/catalog`,
      body: { permissions: [{ key: 'orders:create' }] },
    });
    for (const purpose of ['attestation', 'catalog']) await rotate({ purpose, compromised: true });
    await check(gate.gate_id, jwt);
    const { code, out } = await verifyOffline(await exported());
    expect(code).toBe(0);
    expect(out).toContain('WARNING: 1 record signed by a key that was declared compromised');
    const verdict = await verifyCatalog(catalog.body, (await jwks()).body, { gateId: gate.gate_id });
    expect(verdict).toMatchObject({ fault: 'key_compromised' });
  });
});

describe('POST /signing-keys/rotate with the kid of a retired key', () => {
  const declare = (kid: string, purpose: KeyPurpose = 'passport') =>
    rotate({ purpose, compromised: true, kid });

  it('200: says so in the JWKS and to every sidecar, and replaces nothing', async () => {
    const rotated = await rotateFully('passport');
    const before = (await jwks()).body.keys;
    const reply = await declare(rotated.previous.kid);
    expect(reply).toMatchObject({
      status: 200,
      body: {
        purpose: 'passport',
        kid: rotated.kid,
        not_before: rotated.not_before,
        previous: { ...rotated.previous, compromised: true },
      },
    });
    const { kid } = rotated.previous;
    expect((await jwks()).body.keys).toEqual(
      before.map((key: { kid: string }) => (key.kid === kid ? { ...key, compromised: true } : key)),
    );
    expect(current('passport')).toBe(rotated.kid);
    expect((await api.changes('global')).at(-1)).toMatchObject({
      kind: 'signing_key.put',
      body: { kid, compromised: true, retiredAtMs: Date.parse(rotated.previous.retired_at) },
    });
  });

  it('blocks its passports, and permits those of the current key', async () => {
    const gate = await api.createGate();
    const old = await api.issuePassport();
    const { previous } = await rotateFully('passport');
    const fresh = await api.issuePassport();
    expect(await check(gate.gate_id, old.jwt)).toMatchObject({ decision: 'PERMIT' });
    await declare(previous.kid);
    expect(await check(gate.gate_id, old.jwt)).toMatchObject({ reason: 'passport_unknown_key' });
    expect(await check(gate.gate_id, fresh.jwt)).toMatchObject({ decision: 'PERMIT' });
    const { body } = await api.call({ url: `/v1/passports/${old.passport_id}/verify` });
    expect(body).toMatchObject({ valid: false, reason: 'key_compromised' });
  });

  it('makes verifiers count its records, and catalogs of it fail', async () => {
    const gate = await api.createGate();
    const { jwt } = await api.issuePassport();
    await check(gate.gate_id, jwt);
    const catalog = await api.call({
      url: `/v1/gates/${gate.gate_id}/catalog`,
      body: { permissions: [{ key: 'orders:create' }] },
    });
    for (const purpose of ['attestation', 'catalog'] as const) {
      const { previous } = await rotateFully(purpose);
      await declare(previous.kid, purpose);
    }
    await check(gate.gate_id, jwt);
    expect((await verifyOffline(await exported())).out).toContain(
      'WARNING: 1 record signed by a key that was declared compromised',
    );
    const verdict = await verifyCatalog(catalog.body, (await jwks()).body, { gateId: gate.gate_id });
    expect(verdict).toMatchObject({ fault: 'key_compromised' });
  });

  it('answers a repeat the same at any time, with one change and one audit entry', async () => {
    const { previous } = await rotateFully('passport');
    const replies = await Promise.all([0, 1, 2].map(() => declare(previous.kid)));
    api.advance(2 * limits.signingKeyLeadMs);
    replies.push(await declare(previous.kid));
    expect(new Set(replies.map((reply) => JSON.stringify([reply.status, reply.body]))).size).toBe(1);
    const told = (await api.changes('global')).filter((change) =>
      JSON.stringify(change).includes('"compromised":true'),
    );
    expect(told).toHaveLength(1);
    const { entries: all } = (await api.call({ url: '/v1/audit' })).body;
    const entries = all.filter(({ target }: { target: string }) => target === previous.kid);
    expect(entries).toMatchObject([
      {
        operation: 'rotateSigningKey',
        before: { previous: { compromised: false } },
        after: { previous: { compromised: true } },
      },
    ]);
  });

  it('replaces a named key that still signs, also right after it has taken over', async () => {
    const first = await rotate({ purpose: 'passport', compromised: true });
    const reply = await declare(first.body.kid);
    expect(reply.status).toBe(201);
    expect(reply.body.previous).toMatchObject({ kid: first.body.kid, compromised: true });
    expect((await declare(first.body.kid)).body).toEqual(reply.body);
  });

  it('400: a kid of no key, of another purpose, or without compromised', async () => {
    const { previous } = await rotateFully('catalog');
    for (const body of [
      { purpose: 'passport', compromised: true, kid: 'nothing' },
      { purpose: 'passport', compromised: true, kid: previous.kid },
      { purpose: 'catalog', kid: previous.kid },
    ])
      expect(await rotate(body)).toMatchObject({
        status: 400,
        body: { error: { code: 'invalid_request', param: 'kid' } },
      });
    expect(await published(previous.kid)).toMatchObject({ compromised: false });
  });
});

describe('two control planes on one database', () => {
  let second: SecondControlPlane;
  beforeEach(async () => {
    second = await secondControlPlane(api);
  });
  afterEach(() => second.close());

  it('switch at the same moment', async () => {
    const { body } = await rotate({ purpose: 'passport' });
    await second.deps.signingKeys.reload();
    const signers = async () => [
      kidOf((await api.issuePassport()).jwt),
      kidOf(
        (await second.call('/v1/passports', { permissions: [], agent_id: `a-${api.deps.clock.now()}` })).body
          .jwt,
      ),
    ];
    expect(await signers()).toEqual([body.previous.kid, body.previous.kid]);
    api.advance(limits.signingKeyLeadMs);
    expect(await signers()).toEqual([body.kid, body.kid]);
  });

  it.each([{ purpose: 'passport' }, { purpose: 'passport', compromised: true }])(
    'rotate once when both are asked together: %j',
    async (body) => {
      const replies = await Promise.all([0, 1, 2].flatMap(() => [rotate(body), second.call(url, body)]));
      expect(replies.map(({ status }) => status).sort()).toEqual([200, 200, 200, 200, 200, 201]);
      expect(new Set(replies.map((reply) => JSON.stringify(reply.body))).size).toBe(1);
      const [row] = await api.deps.sql`
        SELECT count(*) AS keys, count(*) FILTER (WHERE retired_at_ms IS NULL) AS unretired
        FROM signing_keys WHERE purpose = 'passport'`;
      expect(row).toEqual({ keys: 2, unretired: 1 });
    },
  );

  it('block tokens of a compromised key even before they have loaded the change', async () => {
    const gate = await api.createGate();
    const { jwt } = await api.issuePassport();
    await rotate({ purpose: 'passport', compromised: true });
    expect(second.deps.signingKeys.all().some(({ compromised }) => compromised)).toBe(false);
    const { body } = await second.call(`/v1/gates/${gate.gate_id}/check`, { passport: jwt, request: order });
    expect(body).toMatchObject({ decision: 'BLOCK', reason: 'passport_unknown_key' });
  });

  it('issue passports that are blocked until they have loaded the change', async () => {
    const gate = await api.createGate();
    await rotate({ purpose: 'passport', compromised: true });
    const { body } = await second.call('/v1/passports', { agent_id: 'late', permissions: ['orders:create'] });
    expect(await check(gate.gate_id, body.jwt)).toMatchObject({ reason: 'passport_unknown_key' });
  });
});

async function exported(): Promise<string> {
  return (await api.call({ url: '/v1/attestations/export?format=jsonl' })).body;
}

async function verifyOffline(file: string): Promise<{ code: number; out: string }> {
  const folder = temporaryFolder();
  const path = join(folder.path, 'jwks.json');
  writeFileSync(path, JSON.stringify((await jwks()).body));
  const said: string[] = [];
  const code = await verifyAttestationsCommand({
    files: ['-'],
    stdin: Readable.from([Buffer.from(file)]),
    jwks: path,
    output: { write: (text) => void said.push(text) },
  });
  folder.remove();
  return { code, out: said.join('') };
}
