import * as jose from 'jose';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { federatedPassportId } from '../../shared/crypto/federated-id.ts';
import type { IssuerId } from '../../shared/model/ids.ts';
import { until } from '../support/base/until.ts';
import { type Api, startOwnApi } from '../support/service/api.ts';
import { startTestSidecar, type TestSidecar } from '../support/service/sidecar.ts';
import { brokenRules } from '../support/service/sound-database.ts';

let api: Api;
let sidecar: TestSidecar;
beforeEach(async () => {
  api = await startOwnApi();
  sidecar = await startTestSidecar({ api });
});
afterEach(async () => {
  await sidecar.close();
  sidecar.removeFolder();
  await api.close();
});

const iss = 'https://people.example';
const request = { permission_key: 'orders:create' };

async function keyNamed(kid: string) {
  const { publicKey, privateKey } = await jose.generateKeyPair('ES256');
  const sign = (sub: string, claims: object = {}) =>
    new jose.SignJWT({ sub, ...claims })
      .setProtectedHeader({ alg: 'ES256', kid })
      .setIssuer(iss)
      .setAudience('gate')
      .setIssuedAt()
      .setExpirationTime('1h')
      .sign(privateKey);
  return { jwk: { ...(await jose.exportJWK(publicKey)), kid, alg: 'ES256' }, sign };
}

const federation = (keys: readonly object[], change: object = {}) => ({
  ...{ type: 'jwks', issuer: iss, jwks: { keys }, audiences: ['gate'] },
  ...{ permissions: ['orders:create'], claims: { owner: '/team' }, ...change },
});

/** The tables that hold what is restored, as they are now; call the result to put them back. */
async function backUp(): Promise<() => Promise<void>> {
  const { sql } = api.deps;
  const tables = ['owner_standings', 'federations', 'feeds', 'changes', 'suspensions'] as const;
  for (const table of tables) await sql`CREATE TABLE ${sql(`${table}_then`)} AS TABLE ${sql(table)}`;
  const passports = await sql<{ id: string; status: string }[]>`
    SELECT passport_id AS id, status FROM passports`;
  const issuers = await sql<{ id: string; status: string }[]>`SELECT issuer_id AS id, status FROM issuers`;
  return async () => {
    sidecar.link.cut();
    for (const table of ['changes', 'owner_standings', 'federations', 'suspensions'] as const)
      await sql`DELETE FROM ${sql(table)}`;
    await sql`DELETE FROM passports WHERE passport_id <> ALL(${passports.map(({ id }) => id)}::text[])`;
    for (const { id, status } of passports)
      await sql`UPDATE passports SET status = ${status}, revoked_at_ms = NULL, revocation_reason = NULL
        WHERE passport_id = ${id}`;
    for (const { id, status } of issuers)
      await sql`UPDATE issuers SET status = ${status} WHERE issuer_id = ${id}`;
    await sql`UPDATE feeds SET revision = t.revision FROM feeds_then t WHERE feeds.feed_id = t.feed_id`;
    for (const table of ['changes', 'owner_standings', 'federations', 'suspensions'] as const)
      await sql`INSERT INTO ${sql(table)} SELECT * FROM ${sql(`${table}_then`)}`;
    sidecar.link.restore();
  };
}

/** Whom the database had: three agents of one issuer with two keys, and another issuer. */
async function world() {
  const [old, kept] = [await keyNamed('old'), await keyNamed('kept')];
  const { issuer_id: issuerId } = await api.createIssuer({
    name: 'People',
    federation: federation([old.jwk, kept.jwk]),
  });
  const { gate_id: gateId } = await api.createGate();
  await sidecar.caughtUp();
  const reasonAt = async (token: string) => (await sidecar.check(gateId, token, request)).body.reason;
  const reasonHere = async (token: string) =>
    (await api.call({ url: `/v1/gates/${gateId}/check`, body: { passport: token, request } })).body.reason;
  const url = `/v1/issuers/${issuerId}`;
  const replaceKeys = (keys: readonly object[], change: object = {}) =>
    api.call({ method: 'PUT', url, body: { federation: federation(keys, change) } });
  return { old, kept, issuerId: issuerId as IssuerId, reasonAt, reasonHere, replaceKeys };
}

const isRegressed = async () =>
  (await api.call({ url: '/readyz', key: null })).body.history.state === 'regressed';
const recover = async (apply: boolean) =>
  (await api.call({ url: '/v1/sync/history/recover', body: { apply } })).body;
const sidecarIsWhole = async () =>
  (await sidecar.call({ path: '/readyz', key: null })).body.history.state === 'whole';

/** Restores, waits until the sidecar has told what it knows, and calls `meanwhile` before the recovery. */
async function recovered(restore: () => Promise<void>, ends: number, meanwhile: () => Promise<void>) {
  await restore();
  await until(isRegressed, { what: 'it is noticed' });
  await until(async () => (await recover(false)).taken_back.length === ends, { what: 'what to take back' });
  await meanwhile();
  const done = await recover(true);
  expect(done).toMatchObject({ applied: true, state: 'whole' });
  await until(sidecarIsWhole, { what: 'the sidecar follows the new history' });
  await sidecar.caughtUp();
  return done.taken_back as readonly { kind: string; id: string; standing: string }[];
}

it('lets no key in again that its issuer had withdrawn', async () => {
  const { old, kept, issuerId, reasonAt, reasonHere, replaceKeys } = await world();
  const [withdrawn, good] = [await old.sign('planner'), await kept.sign('planner')];
  expect([await reasonAt(withdrawn), await reasonAt(good)]).toEqual([null, null]);
  await until(async () => (await reasonHere(good)) === null, { what: 'its passport' });
  const restore = await backUp();
  expect((await replaceKeys([kept.jwk])).status).toBe(200);
  await sidecar.caughtUp();
  expect(await reasonAt(withdrawn)).toBe('passport_unknown_key');
  const taken = await recovered(restore, 1, async () => {
    expect(await reasonAt(await old.sign('planner'))).toBe('issuer_untrusted');
    expect(await reasonAt(good)).toBeNull();
  });
  expect(taken).toMatchObject([{ kind: 'federation', id: issuerId, standing: 'changed' }]);
  for (const reasonOf of [reasonAt, reasonHere]) {
    expect(await reasonOf(withdrawn)).toBe('passport_unknown_key');
    expect(await reasonOf(good)).toBeNull();
  }
  expect((await api.call({ url: `/v1/issuers/${issuerId}` })).body.federation.keys).toMatchObject([
    { kid: 'kept' },
  ]);
});

it('lets nobody in again who was suspended or revoked, seen before the backup or not', async () => {
  const { kept, issuerId, reasonAt, reasonHere } = await world();
  const token = (sub: string) => kept.sign(sub, { team: `team of ${sub}` });
  const seen = ['revoked', 'suspended', 'owned'];
  for (const sub of seen) expect(await reasonHere(await token(sub))).toBeNull();
  const restore = await backUp();
  const post = async (url: string, body: object = {}) =>
    expect((await api.call({ url: `/v1${url}`, body })).status).toBe(200);
  const passportOf = (sub: string) => `/passports/${federatedPassportId(issuerId, sub)}`;
  await post(`/issuers/${issuerId}/revoke-subject`, { subject: 'revoked' });
  await post(`${passportOf('suspended')}/suspend`);
  await post('/owners/team%20of%20owned/suspend');
  await post(`/issuers/${issuerId}/revoke-subject`, { subject: 'unseen' });
  await post('/owners/team%20of%20unseen%20too/suspend');
  const late = await api.issuePassport();
  await post(`/passports/${late.passport_id}/revoke`);
  await sidecar.caughtUp();

  const reasons = async (reasonOf: (token: string) => Promise<string | null>, at = 1) => {
    const found: Record<string, string | null> = {};
    for (const sub of [...seen, 'unseen', 'unseen too', `new ${at}`])
      found[sub] = await reasonOf(await token(sub));
    return found;
  };
  const expected = (at: number) => ({
    ...{ revoked: 'passport_revoked', suspended: 'passport_suspended', owned: 'passport_suspended' },
    ...{ unseen: 'passport_revoked', 'unseen too': 'passport_suspended', [`new ${at}`]: null },
  });
  const taken = await recovered(restore, 7, async () => {
    expect(await reasonAt(await token('unseen'))).toBe('passport_revoked');
    // It has a row now, from before its end is taken back.
    await until(async () => (await api.call({ url: `/v1${passportOf('unseen')}` })).status === 200, {
      what: 'its passport',
    });
  });
  expect(taken.map(({ kind, standing }) => `${kind} ${standing}`).toSorted()).toEqual([
    // The second one is what the owner's suspension had stopped.
    ...['owner suspended', 'passport revoked', 'passport suspended', 'passport suspended'],
    ...['unnamed revoked', 'unnamed revoked', 'unnamed suspended'],
  ]);
  expect(await reasons(reasonAt)).toEqual(expected(1));
  expect(await reasonAt(late.jwt)).toBe('passport_revoked');
  const other = await startTestSidecar({ api });
  try {
    await other.caughtUp();
    expect((await other.check(null, late.jwt, request)).body.reason).toBe('passport_revoked');
    expect(await reasons(async (each) => (await other.check(null, each, request)).body.reason, 2)).toEqual(
      expected(2),
    );
  } finally {
    await other.close();
    other.removeFolder();
  }
  expect(await reasons(reasonHere, 3)).toEqual(expected(3));
  expect((await api.call({ url: `/v1${passportOf('unseen')}` })).body.status).toBe('revoked');
  expect(await brokenRules(api.deps.sql)).toEqual({});

  await post(`${passportOf('unseen')}/reactivate`);
  await post('/owners/team%20of%20unseen%20too/reactivate');
  await post('/owners/team%20of%20owned/reactivate');
  await sidecar.caughtUp();
  for (const reasonOf of [reasonAt, reasonHere])
    for (const sub of ['unseen', 'unseen too', 'owned']) expect(await reasonOf(await token(sub))).toBeNull();
});
