import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { verifyAttestationsCommand } from '../../cli/verify/verify-attestations.ts';
import { verifyCatalog } from '../../clients/node/src/verify.ts';
import { loadSigningKeys } from '../../control-plane/signing/load-signing-keys.ts';
import { limits } from '../../shared/model/limits.ts';
import { type KeyPurpose, keyPurposes } from '../../shared/model/signing-key.ts';
import { temporaryFolder } from '../support/base/temporary-folder.ts';
import { verifyExport } from '../support/data/independent-verifier.mjs';
import { type Reply, startOwnApi } from '../support/service/api.ts';
import { expectError } from '../support/service/expect-error.ts';
import { type SecondControlPlane, secondControlPlane } from '../support/service/second-control-plane.ts';
import { useApi } from '../support/service/use-api.ts';

const url = '/v1/signing-keys/rotate';
const order = { permission_key: 'orders:create' };

const api = useApi(startOwnApi);
let gateId: string;
/** Of a new account in each test, whose records are its alone. */
let key: string;
beforeEach(async () => {
  ({ key } = await api.createAccount());
  gateId = (await api.createGate({}, key)).gate_id;
});
// No rotation of one test is in progress in the next.
afterEach(() => api.advance(2 * limits.signingKeyLeadMs));

const rotate = (body: object) => api.call({ url, body });
const jwks = async (): Promise<Reply> => api.call({ url: '/.well-known/jwks.json', key: null });
const published = async (kid: string) =>
  (await jwks()).body.keys.find((key: { kid: string }) => key.kid === kid);
const current = (purpose: KeyPurpose) => api.deps.signingKeys.current(purpose).kid;
const kidOf = (token: string) =>
  JSON.parse(Buffer.from(token.split('.')[0] ?? '', 'base64url').toString()).kid;
const check = async (passport: string) =>
  (await api.call({ url: `/v1/gates/${gateId}/check`, key, body: { passport, request: order } })).body;
const issue = () => api.issuePassport({}, key);
const publish = async () => {
  const body = { permissions: [{ key: 'orders:create' }] };
  return (await api.call({ url: `/v1/gates/${gateId}/catalog`, key, body })).body;
};
/** Rotates, and lets the new key take over. */
const rotateFully = async (purpose: KeyPurpose) => {
  const { body } = await rotate({ purpose });
  api.advance(limits.signingKeyLeadMs);
  return body;
};
/** Ends the current key of the purpose: as it signs, or by its kid once it has retired. */
const ways = {
  'that signs': (purpose: KeyPurpose) => rotate({ purpose, compromised: true }),
  'that has retired': async (purpose: KeyPurpose) => {
    const { previous } = await rotateFully(purpose);
    return rotate({ purpose, compromised: true, kid: previous.kid });
  },
};

describe('POST /signing-keys/rotate', () => {
  it.each([
    [{}, 'purpose'],
    [{ purpose: 'webhook' }, 'purpose'],
    [{ purpose: ['passport'] }, 'purpose'],
    [{ purpose: 'passport', compromised: 'true' }, 'compromised'],
    [{ purpose: 'passport', kid: 'x' }, 'kid'],
  ])('400: refuses %j, naming %s, and rotates nothing', async (body, param) => {
    const before = api.deps.signingKeys.all();
    expectError(await rotate(body), 'invalid_request', param);
    expect(api.deps.signingKeys.all()).toEqual(before);
  });

  it.each(keyPurposes)('201: publishes the next key for %s, which takes over in 60 s', async (purpose) => {
    const old = current(purpose);
    const beforeMs = api.deps.clock.now();
    const reply = await rotate({ purpose });
    const afterMs = api.deps.clock.now();
    expect(reply.status).toBe(201);
    expect(reply.body).toEqual({
      ...{ purpose, kid: expect.stringMatching(/^[\w-]{43}$/) },
      not_before: expect.stringMatching(/\.\d{3}Z$/),
      previous: { kid: old, retired_at: reply.body.not_before, compromised: false },
    });
    const leadMs = Date.parse(reply.body.not_before) - 60_000;
    expect(leadMs).toBeGreaterThanOrEqual(beforeMs);
    expect(leadMs).toBeLessThanOrEqual(afterMs);
    expect((await jwks()).headers['cache-control'], 'half of that time').toBe('public, max-age=30');
    if (purpose !== 'sync') {
      const unstained = { use: 'sig', purpose, compromised: false };
      const nbf = Math.floor(Date.parse(reply.body.not_before) / 1_000);
      expect(await published(reply.body.kid)).toMatchObject({ ...unstained, nbf, retired_at: null });
      expect(await published(old)).toMatchObject({ ...unstained, retired_at: reply.body.not_before });
    }
    expect(current(purpose)).toBe(old);
    api.advance(limits.signingKeyLeadMs / 2);
    expect(current(purpose)).toBe(old);
    api.advance(limits.signingKeyLeadMs / 2);
    expect(current(purpose)).toBe(reply.body.kid);
    for (const other of keyPurposes.filter((each) => each !== purpose)) {
      expect((await rotate({ purpose: other })).body.previous.kid).toBe(current(other));
    }
  });

  it('sends both public keys to every sidecar, the new one first, and no private key', async () => {
    const before = (await api.changes('global')).length;
    const { body } = await rotate({ purpose: 'sync' });
    const [next, previous, ...more] = (await api.changes('global')).slice(before);
    expect(more).toEqual([]);
    const takesOverMs = Date.parse(body.not_before);
    expect(next).toEqual({
      kind: 'signing_key.put',
      body: {
        ...{ kid: body.kid, purpose: 'sync', publicKey: expect.stringMatching(/^[\w-]{43}$/) },
        ...{ notBeforeMs: takesOverMs, retiredAtMs: null, compromised: false },
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
    const told = (await api.changes('global')).length;
    const second = await rotate({ purpose: 'passport' });
    expect([first.status, second.status]).toEqual([201, 200]);
    expect(second.body).toEqual(first.body);
    expect(await api.changes('global')).toHaveLength(told);
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
});

describe('signatures from before an ordinary rotation', () => {
  it('catalogs: still verify with the JWKS of today', async () => {
    const old = await publish();
    const { kid, previous } = await rotateFully('catalog');
    const fresh = await publish();
    expect([old.signing_key_id, fresh.signing_key_id]).toEqual([previous.kid, kid]);
    const { body: keys } = await jwks();
    for (const catalog of [old, fresh])
      expect(await verifyCatalog(catalog, keys, { gateId })).toMatchObject({ valid: true });
  });

  it('attestations: one chain across the rotation verifies offline, by our command and by an independent one', async () => {
    const { jwt } = await issue();
    await check(jwt);
    const { kid, previous } = await rotateFully('attestation');
    await check(jwt);
    const file = await exported();
    const lines = file
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(lines[0].manifest.key_ids.slice(-2)).toEqual([previous.kid, kid]);
    expect([lines[2].signing_key_id, lines[3].signing_key_id]).toEqual([previous.kid, kid]);
    expect(verifyExport(Buffer.from(file), (await jwks()).body)).toEqual({ chains: 1, records: 2 });
    expect(await verifyOffline(file)).toEqual({
      code: 0,
      out: 'OK: 2 records in 1 chain. Every hash, link and signature verifies.\n',
    });
  });

  it('attestations and audit: verify also once the clock was set back to before the new key', async () => {
    await rotateFully('attestation');
    const { jwt } = await issue();
    await check(jwt);
    api.advance(-2 * limits.signingKeyLeadMs);
    const file = await exported();
    for (const each of [file, (await api.call({ url: '/v1/audit/export', key })).body])
      expect(await verifyOffline(each)).toMatchObject({ code: 0 });
    expect(verifyExport(Buffer.from(file), (await jwks()).body)).toMatchObject({ records: 1 });
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
    const old = await issue();
    expect(await check(old.jwt)).toMatchObject({ decision: 'PERMIT' });
    await rotate({ purpose: 'passport', compromised: true });
    const blocked = await check(old.jwt);
    expect(blocked).toMatchObject({ decision: 'BLOCK', reason: 'passport_unknown_key' });
    const record = (await api.call({ url: `/v1/attestations/${blocked.attestation_id}`, key })).body;
    expect(record).toMatchObject({ chain_id: gateId, passport_id: null });
    expect(await check((await issue()).jwt)).toMatchObject({ decision: 'PERMIT' });
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
    const old = await issue();
    await rotateFully('passport');
    await rotate({ purpose: 'passport', compromised: true });
    expect(await check(old.jwt)).toMatchObject({ decision: 'PERMIT' });
  });

  it.each(Object.entries(ways))(
    'of a key %s makes the verifier count its records, and its catalogs fail',
    async (_which, declare) => {
      const { jwt } = await issue();
      await check(jwt);
      const catalog = await publish();
      for (const purpose of ['attestation', 'catalog'] as const) await declare(purpose);
      await check(jwt);
      const { code, out } = await verifyOffline(await exported());
      expect(code).toBe(0);
      expect(out).toContain('WARNING: 1 record signed by a key that was declared compromised');
      const verdict = await verifyCatalog(catalog, (await jwks()).body, { gateId });
      expect(verdict).toMatchObject({ fault: 'key_compromised' });
    },
  );
});

describe('POST /signing-keys/rotate with the kid of a retired key', () => {
  const declare = (kid: string) => rotate({ purpose: 'passport', compromised: true, kid });

  it('200: says so in the JWKS and to every sidecar, and replaces nothing', async () => {
    const rotated = await rotateFully('passport');
    const before = (await jwks()).body.keys;
    const { kid } = rotated.previous;
    expect(await declare(kid)).toMatchObject({
      status: 200,
      body: {
        ...{ purpose: 'passport', kid: rotated.kid, not_before: rotated.not_before },
        previous: { ...rotated.previous, compromised: true },
      },
    });
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
    const old = await issue();
    const { kid, previous } = await rotateFully('passport');
    const fresh = await issue();
    expect([kidOf(old.jwt), kidOf(fresh.jwt)]).toEqual([previous.kid, kid]);
    for (const { jwt } of [old, fresh]) expect(await check(jwt)).toMatchObject({ decision: 'PERMIT' });
    await declare(previous.kid);
    expect(await check(old.jwt)).toMatchObject({ reason: 'passport_unknown_key' });
    expect(await check(fresh.jwt)).toMatchObject({ decision: 'PERMIT' });
    const verdictOf = async (id: string) => (await api.call({ url: `/v1/passports/${id}/verify`, key })).body;
    expect(await verdictOf(old.passport_id)).toMatchObject({ valid: false, reason: 'key_compromised' });
    expect(await verdictOf(fresh.passport_id)).toMatchObject({ valid: true, reason: null });
  });

  it('answers a repeat the same at any time, with one change and one audit entry', async () => {
    const { previous } = await rotateFully('passport');
    const told = (await api.changes('global')).length;
    const replies = await Promise.all([0, 1, 2].map(() => declare(previous.kid)));
    api.advance(2 * limits.signingKeyLeadMs);
    replies.push(await declare(previous.kid));
    expect(new Set(replies.map((reply) => JSON.stringify([reply.status, reply.body]))).size).toBe(1);
    expect(await api.changes('global')).toHaveLength(told + 1);
    const { entries } = (await api.call({ url: `/v1/audit?target=${previous.kid}` })).body;
    const declared = entries.filter(({ after }: Reply['body']) => after.previous.kid === previous.kid);
    expect(declared).toMatchObject([
      {
        ...{ operation: 'rotateSigningKey', before: { previous: { compromised: false } } },
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
      expectError(await rotate(body), 'invalid_request', 'kid');
    expect(await published(previous.kid)).toMatchObject({ compromised: false });
  });
});

describe('two control planes on one database', () => {
  let second: SecondControlPlane;
  beforeEach(async () => {
    second = await secondControlPlane(api);
  });
  afterEach(() => second.close());

  it.each([{ purpose: 'passport' }, { purpose: 'passport', compromised: true }])(
    'rotate once when both are asked together: %j',
    async (body) => {
      const [before] = await api.deps.sql`SELECT count(*) + 1 AS keys FROM signing_keys`;
      const replies = await Promise.all([0, 1, 2].flatMap(() => [rotate(body), second.call(url, body)]));
      expect(replies.map(({ status }) => status).sort()).toEqual([200, 200, 200, 200, 200, 201]);
      expect(new Set(replies.map((reply) => JSON.stringify(reply.body))).size).toBe(1);
      const [row] = await api.deps.sql`
        SELECT count(*) AS keys, count(*) FILTER (WHERE retired_at_ms IS NULL AND purpose = 'passport') AS unretired
        FROM signing_keys`;
      expect(row).toEqual({ ...before, unretired: 1 });
    },
  );

  it('block tokens of a compromised key, and issue ones that are blocked, until they have loaded the change', async () => {
    const { jwt } = await issue();
    const { body: rotated } = await rotate({ purpose: 'passport', compromised: true });
    const old = second.deps.signingKeys.all().find(({ kid }) => kid === rotated.previous.kid);
    expect(old?.compromised).toBe(false);
    const { body } = await second.call(`/v1/gates/${gateId}/check`, { passport: jwt, request: order }, key);
    expect(body).toMatchObject({ decision: 'BLOCK', reason: 'passport_unknown_key' });
    const late = { agent_id: 'late', permissions: ['orders:create'] };
    const issued = await second.call('/v1/passports', late, key);
    expect(await check(issued.body.jwt)).toMatchObject({ reason: 'passport_unknown_key' });
  });
});

async function exported(): Promise<string> {
  return (await api.call({ url: '/v1/attestations/export?format=jsonl', key })).body;
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
