import { randomBytes } from 'node:crypto';
import { Registry } from 'prom-client';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { feedsReceipt, openReceipt } from '../../control-plane/history/receipts.ts';
import { followMasterKeys, masterKeyState } from '../../control-plane/master-key/follow-master-keys.ts';
import type { MasterKeys } from '../../control-plane/master-key/key-sources.ts';
import { masterKeyLimits } from '../../control-plane/master-key/limits.ts';
import { MasterKeyError } from '../../control-plane/master-key/master-key.ts';
import { resealAll } from '../../control-plane/master-key/reseal.ts';
import type { SealedPlace } from '../../control-plane/master-key/sealed-place.ts';
import { leaveReplicas, takeMasterKeys } from '../../control-plane/master-key/take-master-keys.ts';
import { findArtifact, putArtifact } from '../../control-plane/oauth/artifact-store.ts';
import { sealedPlaces } from '../../control-plane/sealed-places.ts';
import { openWebhookSecret } from '../../control-plane/webhooks/webhook-secret.ts';
import { masterKeyId, type Sealer } from '../../shared/crypto/seal.ts';
import { must } from '../../shared/errors/assert.ts';
import type { AccountId, WebhookId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { keptLog } from '../support/base/kept-log.ts';
import { isLong } from '../support/base/runs.ts';
import { until } from '../support/base/until.ts';
import { type Api, type LoggedIn, startOwnApi } from '../support/service/api.ts';
import { beginTotp, codeOf } from '../support/service/good-calls.ts';
import { secondControlPlane } from '../support/service/second-control-plane.ts';

const old = randomBytes(32);
const next = randomBytes(32);

let api: Api;
let secrets: Secrets;
/** What holds something sealed, and what says under which key; those that are locked first come first. */
const sealedTables = [
  ...['users', 'webhooks', 'channels', 'idempotent_answers', 'installation', 'log_keys'],
  ...['oauth_artifacts', 'replicas', 'signing_keys'],
];
beforeAll(async () => {
  api = await startOwnApi({ masterKey: old });
  secrets = await makeSecrets();
  await api.deps.sql`CREATE SCHEMA kept`;
  for (const name of sealedTables)
    await api.deps.sql.unsafe(`CREATE TABLE kept.${name} AS SELECT * FROM ${name}`);
});
/** Everything is sealed by the old key again. */
beforeEach(() =>
  api.deps.sql.begin(async (tx) => {
    await tx`SET LOCAL session_replication_role = replica`;
    for (const name of sealedTables)
      await tx.unsafe(`DELETE FROM ${name}; INSERT INTO ${name} SELECT * FROM kept.${name}`);
  }),
);
afterAll(() => api.close());

/** A control plane with these keys, as far as master keys are concerned. */
async function replica(
  name: string,
  keys: MasterKeys,
  {
    places = sealedPlaces,
    logger = api.deps.logger,
  }: { places?: readonly SealedPlace[]; logger?: Logger } = {},
) {
  const deps = { ...api.deps, replicaId: name, places, logger };
  const taken = await takeMasterKeys(deps, keys);
  // The state is kept for each pool, and these share one.
  const following = { ...deps, sealer: taken.sealer, metrics: new Registry() };
  const follower = followMasterKeys(following, { keys, replica: taken.replica, places });
  return {
    sealer: taken.sealer,
    metric: () => following.metrics.metrics(),
    /** As after kill -9. */
    crash: () => follower.stop(),
    stop: async () => {
      await follower.stop();
      await leaveReplicas(deps);
    },
  };
}

const isSettledFor = async (key: Uint8Array): Promise<boolean> => {
  const rows = await api.deps.sql<{ value: string }[]>`
    SELECT value FROM installation WHERE starts_with(name, 'master_key_check')`;
  return rows.every(({ value }) => value.startsWith(`v2.${masterKeyId(key)}.`));
};

/** Such a start alone, which neither seals anew nor says that it runs again. */
async function start(name: string, keys: MasterKeys, logger: Logger = api.deps.logger): Promise<Sealer> {
  const deps = { ...api.deps, logger, replicaId: name, places: sealedPlaces };
  return (await takeMasterKeys(deps, keys)).sealer;
}
/** Hears when a start waits for certainty about another replica, and moves the last sign of its life. */
const whenWaiting = (byMs: number): Logger => ({
  ...api.deps.logger,
  warn: () => void api.deps.sql`UPDATE replicas SET seen_at_ms = seen_at_ms + ${byMs}`.execute(),
});
const leave = (name: string) => leaveReplicas({ sql: api.deps.sql, replicaId: name });

/** Every text of the database that is sealed, by the column in which it is. */
async function sealedTexts(): Promise<readonly { readonly column: string; readonly text: string }[]> {
  const { sql } = api.deps;
  const columns = await sql<{ table: string; column: string }[]>`
    SELECT table_name AS table, column_name AS column FROM information_schema.columns
    JOIN information_schema.tables USING (table_schema, table_name)
    WHERE table_schema = 'public' AND table_type = 'BASE TABLE' AND data_type IN ('text', 'jsonb', 'ARRAY', 'bytea')`;
  const found: { column: string; text: string }[] = [];
  for (const { table, column } of columns) {
    const rows = await sql<{ text: string }[]>`
      SELECT m[1] AS text FROM ${sql(table)}, LATERAL regexp_matches(${sql(column)}::text,
        '(v1[.][A-Za-z0-9_-]{16}[.][A-Za-z0-9_-]{22,}|v2[.][0-9a-f]{16}[.][A-Za-z0-9_-]{16}[.][A-Za-z0-9_-]{22,})', 'g') AS m`;
    found.push(...rows.map(({ text }) => ({ column: `${table}.${column}`, text })));
  }
  return found;
}

interface Secrets {
  readonly webhookId: WebhookId;
  readonly webhookSecrets: readonly string[];
  readonly person: LoggedIn;
  readonly totp: Uint8Array;
  readonly keyed: { readonly key: string; readonly agentId: string; readonly jwt: string };
}

const keyedBody = (agentId: string) => ({ agent_id: agentId, permissions: ['orders:create'] });

/** Something sealed of every kind. */
async function makeSecrets(): Promise<Secrets> {
  const hook = { url: 'https://example.com/hook', events: ['passport.revoked'] };
  const made = (await api.call({ url: '/v1/webhooks', body: hook })).body;
  const rolled = await api.call({
    url: `/v1/webhooks/${made.webhook_id}/roll-secret`,
    body: { overlap_s: 3_600 },
  });
  await api.call({
    url: '/v1/channels',
    body: { name: 'pager', kind: 'slack', target: 'https://example.com/hook' },
  });
  const person = await api.createUser({ role: 'auditor' });
  const totp = await beginTotp(api, person);
  await api.call({
    url: '/v1/users/me/totp/confirm',
    key: null,
    headers: person.headers,
    body: { code: codeOf(totp, api.deps.clock.now()) },
  });
  const endsAtMs = (api.deps.clock.now() + 3_600_000) as UnixMillis;
  await putArtifact(api.deps, { model: 'Grant', id: 'a' }, { payload: { clientId: 'c' }, endsAtMs });
  const keyed = await api.call({
    url: '/v1/passports',
    headers: { 'idempotency-key': 'k' },
    body: keyedBody('keyed'),
  });
  return {
    webhookId: made.webhook_id,
    webhookSecrets: [rolled.body.secret, made.secret],
    person,
    totp,
    keyed: { key: 'k', agentId: 'keyed', jwt: keyed.body.jwt },
  };
}

/** What was made before is as it was, for a control plane with the new key alone. */
async function expectKept(): Promise<void> {
  const lone = await replica('lone', { own: next, fallbacks: [] });
  const deps = { ...api.deps, sealer: lone.sealer };
  const second = await secondControlPlane({ ...api, deps });
  const [row] = await deps.sql<{ sealed: string; previous: { sealed: string }[] }[]>`
    SELECT sealed_secret AS sealed, previous_secrets AS previous FROM webhooks`;
  const { sealed, previous } = must(row, 'a webhook');
  const opened = [sealed, ...previous.map((each) => each.sealed)].map(
    (each) =>
      `whsec_${Buffer.from(openWebhookSecret(lone.sealer, secrets.webhookId, each)).toString('base64')}`,
  );
  expect(opened).toEqual(secrets.webhookSecrets);
  expect(await findArtifact(deps, { model: 'Grant', id: 'a' })).toEqual({ clientId: 'c' });
  const repeat = await second.app.inject({
    method: 'POST',
    url: '/v1/passports',
    headers: { authorization: `Bearer ${api.adminKey}`, 'idempotency-key': secrets.keyed.key },
    payload: keyedBody(secrets.keyed.agentId),
  });
  expect(repeat.json()).toMatchObject({ jwt: secrets.keyed.jwt });
  const { email, password } = secrets.person;
  api.advance(60_000);
  const logIn = await second.app.inject({
    method: 'POST',
    url: '/v1/session',
    headers: { 'x-agent-trust-console': '1', 'sec-fetch-site': 'same-origin' },
    payload: { email, password, totp_code: codeOf(secrets.totp, api.deps.clock.now()) },
  });
  expect([logIn.statusCode, logIn.body]).toEqual([200, expect.any(String)]);
  const issued = await second.call('/v1/passports', keyedBody(`fresh-${randomBytes(4).toString('hex')}`));
  expect(issued.status).toBe(201);
  await second.close();
  await lone.stop();
}

describe('a change of MASTER_KEY', () => {
  it('seals everything anew while it is in use, forgets nothing, and says when the old one can go', async () => {
    const before = await sealedTexts();
    expect(new Set(before.map(({ column }) => column))).toEqual(
      new Set([
        'channels.sealed_target',
        'idempotent_answers.body',
        'installation.value',
        'log_keys.sealed_private_key',
        'oauth_artifacts.sealed_payload',
        'signing_keys.sealed_private_key',
        'users.totp_sealed',
        'webhooks.previous_secrets',
        'webhooks.sealed_secret',
      ]),
    );
    const log = keptLog();
    const changing = await replica('a', { own: next, fallbacks: [old] }, { logger: log });
    await until(() => isSettledFor(next), { what: 'the end of the change' });
    const prefix = `v2.${masterKeyId(next)}.`;
    const left = (await sealedTexts()).filter(({ text }) => !text.startsWith(prefix));
    expect(left).toEqual([]);
    await until(() => masterKeyState(api.deps.sql) === 'settled', { what: 'a settled master key' });
    expect(await changing.metric()).toContain('agent_trust_master_keys_in_use 1');
    expect(log.lines.map(({ message }) => message)).toContainEqual(
      expect.stringContaining('MASTER_KEY_FALLBACKS can go'),
    );
    expect(log.text()).not.toContain(next.toString('base64url'));
    await changing.stop();
    await expectKept();
  });

  it('goes on where it was stopped, at any row, and by two replicas at once', async () => {
    const rowsPerStep = isLong ? 1 : 3;
    const { sql } = api.deps;
    const taken = await replica('a', { own: old, fallbacks: [next] });
    await taken.stop();
    let rows = 0;
    for (let steps = 0; !(await isSettledFor(next)); steps++) {
      expect(steps).toBeLessThan(50);
      // Each stops after its first rows.
      const one: SealedPlace[] = sealedPlaces.map((place) => ({
        ...place,
        findOthers: async (...given) =>
          (await place.findOthers(...given)).map((row) => ({
            ...row,
            replace: async (reseal) => {
              if (rows > steps * rowsPerStep) throw new Error('killed');
              rows++;
              return row.replace(reseal);
            },
          })),
      }));
      const both = await Promise.all(
        ['a', 'b'].map((name) =>
          replica(`${name}${steps}`, { own: next, fallbacks: [old] }, { places: one }),
        ),
      );
      await until(async () => rows > steps * rowsPerStep || (await isSettledFor(next)), { what: 'a row' });
      await Promise.all(both.map((each) => each.stop()));
    }
    expect(rows).toBeGreaterThanOrEqual(8);
    expect(await sql`SELECT FROM replicas`).toHaveLength(0);
    await expectKept();
  });

  it('does not overwrite what changed meanwhile', async () => {
    const sealer = await start('a', { own: next, fallbacks: [old] });
    const { sql } = api.deps;
    const [place] = sealedPlaces.filter(({ name }) => name === 'webhooks');
    const [row] = await must(place, 'a place').findOthers(sql, {
      prefix: sealer.prefix,
      after: null,
      limit: 9,
    });
    await sql`UPDATE webhooks SET sealed_secret = 'v1.rolled'`;
    expect(await must(row, 'a webhook').replace(() => 'overwritten')).toBe(false);
    expect(await sql`SELECT sealed_secret AS s FROM webhooks`).toMatchObject([{ s: 'v1.rolled' }]);
  });

  it('passes over a row that no key opens, and names it', async () => {
    const { sql } = api.deps;
    await sql`UPDATE users SET totp_sealed = (SELECT sealed_secret FROM webhooks) WHERE totp_sealed IS NOT NULL`;
    const log = keptLog();
    const changing = await replica('a', { own: next, fallbacks: [old] }, { logger: log });
    await until(() => isSettledFor(next), { what: 'the end of the change' });
    await changing.stop();
    expect(log.lines).toContainEqual(
      expect.objectContaining({
        level: 'error',
        fields: { count: 1, rows: [expect.stringMatching(/^secrets of one-time codes /)] },
      }),
    );
  });

  it('keeps receipts of the old key valid once it is gone, and makes none of anybody else so', async () => {
    const accountId = 'acct_x' as AccountId;
    const position = { account: { revision: 1, mark: 'a' }, global: { revision: 2, mark: 'b' } };
    const told = (by: Sealer) => feedsReceipt(by, { accountId, generation: 'g' }, position);
    const receipt = told(api.deps.sealer);
    for (const [from, to] of [
      [old, next],
      [next, randomBytes(32)],
    ] as const) {
      const changing = await replica('a', { own: to, fallbacks: [from] });
      await until(() => isSettledFor(to), { what: 'the end of the change' });
      await changing.stop();
      const lone = await replica('b', { own: to, fallbacks: [] });
      expect(openReceipt(lone.sealer, receipt, accountId)).toMatchObject({ generation: 'g' });
      expect(
        openReceipt(
          lone.sealer,
          { ...receipt, mac: receipt.mac.replace(/^./, (first) => (first === '-' ? '_' : '-')) },
          accountId,
        ),
      ).toBeNull();
      await lone.stop();
    }
  });

  it('goes back to the old key from the middle', async () => {
    const forth = await start('a', { own: next, fallbacks: [old] });
    const half = sealedPlaces.slice(0, 2);
    const pass = await resealAll({ ...api.deps, sealer: forth }, half, { isStopped: false });
    expect(pass).toMatchObject({ resealed: 5, changed: 0, unopened: [] });
    await leave('a');
    const back = await replica('b', { own: old, fallbacks: [next] });
    const isBack = async () => (await sealedTexts()).every(({ text }) => text.startsWith(back.sealer.prefix));
    await until(isBack, { what: 'everything under the old key again' });
    await back.stop();
  });
});

describe('the order of the steps', () => {
  it('names what is still sealed by a key that is removed too early', async () => {
    await start('a', { own: next, fallbacks: [old] });
    await leave('a');
    const early = start('b', { own: next, fallbacks: [] });
    await expect(early).rejects.toThrow(MasterKeyError);
    await expect(early).rejects.toThrow(
      /is not given, and is still in use: it seals 4 signing keys, 1 keys of the log, 1 webhooks, 1 channels, 1 secrets of one-time codes, .*Add it to MASTER_KEY_FALLBACKS/,
    );
  });

  it('refuses a new key that a running replica does not open, and a replica that does not open the new one', async () => {
    await start('a', { own: old, fallbacks: [] });
    const wrong = start('b', { own: next, fallbacks: [old] }, whenWaiting(1));
    await expect(wrong).rejects.toThrow(
      /would seal what control plane a, which runs, cannot open\. First add it/,
    );
    expect((await sealedTexts()).filter(({ text }) => text.startsWith('v2.'))).toEqual([]);
    await leave('a');
    await start('c', { own: next, fallbacks: [old] });
    const behind = start('d', { own: old, fallbacks: [] });
    await expect(behind).rejects.toThrow(MasterKeyError);
  });

  it('starts with a new key once a crashed replica is certain to be dead', async () => {
    await start('a', { own: old, fallbacks: [] });
    const forward = start(
      'b',
      { own: next, fallbacks: [old] },
      whenWaiting(-masterKeyLimits.replicaLiveMs - 1),
    );
    expect((await forward).prefix).toBe(`v2.${masterKeyId(next)}.`);
  });

  it('waits until every replica seals with the same key', async () => {
    const behind = await replica('a', { own: old, fallbacks: [next] });
    const log = keptLog();
    const forward = await replica('b', { own: next, fallbacks: [old] }, { logger: log });
    await until(() => log.lines.length > 0, { what: 'a line' });
    expect(log.lines[0]).toMatchObject({
      message: expect.stringContaining('once every control plane has the same'),
    });
    expect(await isSettledFor(next)).toBe(false);
    expect((await sealedTexts()).some(({ text }) => text.startsWith('v1.'))).toBe(true);
    await behind.stop();
    await forward.stop();
    const again = await replica('b', { own: next, fallbacks: [old] });
    await until(() => isSettledFor(next), { what: 'the end of the change' });
    await again.stop();
  });

  it('makes a replica that was stopped meanwhile say that it cannot open everything', async () => {
    const behind = await replica('a', { own: old, fallbacks: [] });
    await behind.crash();
    await api.deps.sql`DELETE FROM replicas`;
    const forward = await replica('b', { own: next, fallbacks: [old] });
    await until(() => isSettledFor(next), { what: 'the end of the change' });
    await forward.stop();
    const follower = followMasterKeys(
      { ...api.deps, metrics: new Registry() },
      {
        keys: { own: old, fallbacks: [] },
        replica: { replicaId: 'a', sealsWith: masterKeyId(old), opens: [masterKeyId(old)] },
        places: sealedPlaces,
      },
    );
    await until(() => masterKeyState(api.deps.sql) === 'missing', { what: 'a missing key' });
    const readyz = await api.call({ url: '/readyz', key: null });
    expect(readyz).toMatchObject({ status: 503, body: { status: 'not_ready', master_key: 'missing' } });
    await follower.stop();
    // What it may have sealed meanwhile is not forgotten.
    const lone = start('c', { own: next, fallbacks: [] });
    await leaveReplicas({ sql: api.deps.sql, replicaId: 'a' });
    await expect(lone).rejects.toThrow('is still in use');
  });
});
