import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { verifyCatalog } from '../../clients/node/src/verify.ts';
import { hourMs, minuteMs, type UnixMillis } from '../../shared/model/time.ts';
import { call, type Reply } from '../support/base/http-client.ts';
import { until } from '../support/base/until.ts';
import { type TestDatabase, testDatabase } from '../support/database/postgres.ts';
import { type Receiver, startReceiver } from '../support/peers/receiver.ts';
import { type Installation, installation, type Running } from '../support/programs/installation.ts';
import { bundledPrograms } from '../support/programs/programs.ts';
import { verified } from '../support/service/webhooks.ts';
import { restore, setClockBack } from './dump.ts';
import { type FilledWorld, fromConsole, publicUrl } from './filled-world.ts';

type Later = 'people' | 'past' | 'money' | 'trust';

interface About {
  readonly version: string;
  readonly dumpedAtMs: UnixMillis;
  readonly adminKey: string;
  readonly masterKey: string;
  /** 0.1.0 knew no people, and 0.2.0 none of the others. */
  readonly known: Omit<FilledWorld, Later> & Partial<Pick<FilledWorld, Later>>;
}

const here = (name: string): string => readFileSync(new URL(name, import.meta.url), 'utf8');
const versions = readdirSync(new URL('.', import.meta.url))
  .filter((name) => name.endsWith('.sql'))
  .map((name) => name.slice(0, -'.sql'.length));
const preload = `--import ${fileURLToPath(new URL('../support/peers/wrong-clock.mjs', import.meta.url))}`;
const order = { permission_key: 'orders:create' };

/** What a version of today answers otherwise on purpose, as its entry in CHANGELOG.md says. */
const changedOnPurpose: Readonly<Record<string, (answer: Reply['body']) => void>> = {
  // `limits` of an account are the numbers of its plan, and no longer null.
  '/accounts': ({ body }) => {
    for (const account of body.items) if (account.plan === 'pro') delete account.limits;
  },
  // Gates of the built-in templates let a passport with defaults in, which is L1.
  '/templates': ({ body }) => {
    for (const template of body.items) if (template.built_in) delete template.trust_level;
  },
};

/** When a key was used last, which reading changes, and what becomes of an endpoint that is gone. */
const changing: ReadonlySet<string> = new Set(['last_used_at', 'failures', 'last_error']);
const withoutUse = (answer: object): Reply['body'] =>
  JSON.parse(JSON.stringify(answer, (name, value) => (changing.has(name) ? undefined : value)));

describe.each(versions)('a database of version %s, a minute after it was stopped', (version) => {
  const about: About = JSON.parse(here(`${version}.json`));
  const { known } = about;
  const { gates, passports } = known;
  const buyerId = known.idempotent.passportId;
  let database: TestDatabase;
  let world: Installation;
  let controlPlane: Running;
  let sidecar: Running;
  let receiver: Receiver;

  beforeAll(async () => {
    database = await testDatabase({ isEmpty: true });
    await restore(database.sql, here(`${version}.sql`));
    const behindMs = await setClockBack(database.sql, (about.dumpedAtMs + minuteMs) as UnixMillis);
    world = await installation(await bundledPrograms(), {
      databaseUrl: database.url,
      secrets: about,
      env: {
        PUBLIC_URL: publicUrl,
        WEBHOOK_ALLOW_PRIVATE: '1',
        NODE_OPTIONS: preload,
        CLOCK_AHEAD_MS: String(-behindMs),
      },
    });
    receiver = await startReceiver();
    controlPlane = await world.startControlPlane();
  }, 300_000);
  afterAll(async () => {
    await world?.close();
    await receiver?.close();
    await database?.drop();
  });

  const check = async (at: Running, gate: string, passport: string, request: object = order) =>
    (await call(`${at.origin}/v1/gates/${gate}/check`, { key: world.adminKey, body: { passport, request } }))
      .body;
  const gatesSeenBy = async (key: string): Promise<number> =>
    (await call(`${controlPlane.origin}/v1/gates`, { key })).status;

  it('answers every resource unchanged', async () => {
    for (const [path, before] of Object.entries(known.answers)) {
      const { status, body } = await world.api('GET', path);
      changedOnPurpose[path]?.(before);
      expect.soft(withoutUse({ status, body }), path).toMatchObject(withoutUse(before));
    }
  });

  it('lets in the keys that were good, and no others', async () => {
    const { reader, beforeRoll, rolled, deleted } = known.keys;
    for (const key of [reader, beforeRoll, rolled, known.tenantKey]) expect(await gatesSeenBy(key)).toBe(200);
    expect(await gatesSeenBy(deleted)).toBe(401);
    const asReader = { key: reader, body: { name: 'a gate', trust_level: 'L1' } };
    expect((await call(`${controlPlane.origin}/v1/gates`, asReader)).status).toBe(403);
  });

  const { people } = known;
  if (people !== undefined)
    it('lets in its people, by the session that they had and by their password', async () => {
      const { cookie, ...login } = people;
      const at = `${controlPlane.origin}/v1/session`;
      const before = await call(at, { headers: { ...fromConsole, cookie } });
      expect(before.body.user).toMatchObject({ email: login.email, role: 'owner' });
      expect((await call(at, { headers: fromConsole, body: login })).status).toBe(200);
      const wrong = { ...login, password: 'another password' };
      expect((await call(at, { headers: fromConsole, body: wrong })).status).toBe(401);
    });

  it('counts on in the limits of a plan', async () => {
    const { headers } = await call(`${controlPlane.origin}/v1/gates`, { key: known.tenantKey });
    const limit = Number(headers.get('x-ratelimit-limit'));
    expect(limit).toBeGreaterThan(0);
    expect(Number(headers.get('x-ratelimit-remaining'))).toBeLessThan(limit);
  });

  it('opens /mcp to an access token that was given out before', async () => {
    const { status, body } = await call(`${controlPlane.origin}/mcp`, {
      key: known.accessToken,
      body: {
        jsonrpc: '2.0',
        id: 1,
        method: 'tools/call',
        params: { name: 'list_passports', arguments: {} },
      },
    });
    expect(status).toBe(200);
    expect(body.result.structuredContent.total).toBe(known.answers['/passports'].body.total);
  });

  it('keeps every signing key, and signs new passports with the one that it signed with', async () => {
    const { body: jwks } = await call(`${controlPlane.origin}/.well-known/jwks.json`);
    // Beside those of purposes that had no keys.
    const purposes = new Set(known.jwks.keys.map(({ purpose }: { purpose: string }) => purpose));
    const keys = jwks.keys.filter(({ purpose }: { purpose: string }) => purposes.has(purpose));
    expect({ ...jwks, keys }).toMatchObject(known.jwks);
    const { body: passport } = await world.api('POST', '/passports', { agent_id: 'new', permissions: [] });
    const keyOf = (token: string) =>
      JSON.parse(Buffer.from(token.split('.')[0] ?? '', 'base64url').toString());
    expect(keyOf(passport.jwt)).toEqual(keyOf(passports.buyer));
  });

  it('answers a creation that is asked for again with the passport that it made', async () => {
    const { key, body, passportId } = known.idempotent;
    const again = await call(`${controlPlane.origin}/v1/passports`, {
      key: world.adminKey,
      body,
      headers: { 'idempotency-key': key },
    });
    expect(again.body).toMatchObject({ passport_id: passportId, jwt: passports.buyer });
  });

  it('has catalogs whose signatures verify, the old version as well as the new', async () => {
    const { body: jwks } = await call(`${controlPlane.origin}/.well-known/jwks.json`);
    for (const version of [1, 2]) {
      const { body } = await world.api('GET', `/gates/${gates.offering}/catalog?version=${version}`);
      const verdict = await verifyCatalog(body, jwks, { gateId: gates.offering, version });
      expect(verdict).toMatchObject({ valid: true });
    }
  });

  it('delivers what waited for an endpoint, signed with the secret that it was given', async () => {
    const { id, secret } = known.webhook;
    const url = `/webhooks/${id}`;
    const waiting = (await world.api('GET', `${url}/deliveries?status=pending`)).body;
    expect(waiting.items.length).toBeGreaterThanOrEqual(5);
    expect((await world.api('PUT', url, { url: receiver.url })).status).toBe(200);
    await world.api('POST', `${url}/recover`, { since: new Date(about.dumpedAtMs - hourMs).toISOString() });
    await until(() => receiver.received.length >= waiting.items.length, { what: 'every delivery' });
    const before = { approval_url: '', approval_api_url: '', display: null, answers: [] };
    const since = { ...before, user: null, condition: null };
    const events = receiver.received.map((received) => verified(received, secret, since));
    expect(new Set(events.map(({ event }) => event))).toEqual(
      new Set(['approval.requested', 'approval.resolved']),
    );
  });

  describe('and a sidecar of today', () => {
    beforeAll(async () => {
      sidecar = await world.startSidecar();
    }, 120_000);

    it('accepts the passports that were good, and no others', async () => {
      for (const at of [sidecar, controlPlane]) {
        expect(await check(at, gates.open, passports.buyer)).toMatchObject({ decision: 'PERMIT' });
        expect(await check(at, gates.open, passports.machine)).toMatchObject({ decision: 'PERMIT' });
        expect(await check(at, gates.open, passports.revoked)).toMatchObject({ reason: 'passport_revoked' });
        expect(await check(at, gates.open, passports.suspended)).toMatchObject({
          reason: 'passport_suspended',
        });
      }
      const deleted = { key: world.adminKey, body: { passport: passports.buyer, request: order } };
      expect((await call(`${sidecar.origin}/v1/gates/${gates.removed}/check`, deleted)).status).toBe(404);
    });

    it('takes a limit to its end, and not beyond: two of three requests were made before', async () => {
      const request = { ...order, amount: 12.5 };
      const answers = [];
      for (let i = 0; i < 3; i++)
        answers.push(await check(sidecar, gates.limited, passports.machine, request));
      expect(answers.map(({ decision, reason }) => reason ?? decision)).toEqual([
        'PERMIT',
        'rate_limit_exceeded',
        'rate_limit_exceeded',
      ]);
    });

    it('answers a keyed request again with the PERMIT from before, and charges nothing for it', async () => {
      const { request, attestationId } = known.keyed;
      for (const at of [sidecar, controlPlane]) {
        expect(await check(at, gates.keyed, passports.buyer, request)).toMatchObject({
          decision: 'PERMIT',
          attestation_id: attestationId,
        });
        const other = { ...request, amount: 1 };
        expect(await check(at, gates.keyed, passports.buyer, other)).toMatchObject({
          error: { code: 'idempotency_conflict' },
        });
      }
    });

    it('never gives out again what a sidecar that was killed held', async () => {
      // Five a day: two were permitted before, and what lay with the dead sidecar may stay with it.
      const answers = [];
      for (let i = 0; i < 5; i++)
        answers.push((await check(sidecar, gates.keyed, passports.machine)).decision);
      expect(answers.filter((decision) => decision === 'PERMIT').length).toBeLessThanOrEqual(3);
      expect(answers.at(-1)).toBe('BLOCK');
    });

    it('resolves what waits for a person, and lets each approval pass once', async () => {
      const { pending, approved, used } = known.approvals;
      const approve = await world.api('POST', `/approvals/${pending}/approve`, {});
      expect(approve.body).toMatchObject({ status: 'approved' });
      const use = (approvalId: string, amount: number) =>
        check(sidecar, gates.approving, passports.buyer, { ...order, amount, approval_id: approvalId });
      expect(await use(pending, 11)).toMatchObject({ decision: 'PERMIT' });
      expect(await use(approved, 12)).toMatchObject({ decision: 'PERMIT' });
      for (const [approvalId, amount] of [
        [pending, 11],
        [approved, 12],
        [used, 13],
      ] as const) {
        expect(await use(approvalId, amount)).toMatchObject({ decision: 'BLOCK' });
      }
    });

    const { past, money, trust } = known;
    if (past !== undefined)
      it('goes on after an archive and a recovery', async () => {
        for (const at of [sidecar, controlPlane])
          expect(await check(at, past.gateId, past.passport)).toMatchObject({ decision: 'PERMIT' });
        const { history } = (await call(`${controlPlane.origin}/readyz`)).body;
        expect(history).toMatchObject({ state: 'whole' });
      });

    if (money !== undefined)
      it('goes on with the money of wallets, holds and standing approvals', async () => {
        const pay = (at: Running, gate: string, amount: number, passport = money.passports.spender) =>
          check(at, gate, passport, { ...order, amount });
        const { held } = money;
        for (const at of [sidecar, controlPlane])
          expect(await pay(at, money.gates.spent, 1, money.passports.moved)).toMatchObject({
            decision: 'BLOCK',
            reason: money.frozen,
          });
        const settled = { outcome: 'served', amount: 3 };
        const { body } = await world.api('POST', `/attestations/${held}/outcome`, settled);
        expect(body).toMatchObject({ hold: { status: 'settled' } });
        // Nine of twenty dollars were taken.
        const answers = [];
        for (let i = 0; i < 2; i++) answers.push(await pay(controlPlane, money.gates.standing, 9));
        expect(answers.map(({ decision }) => decision)).toEqual(['PERMIT', 'SUSPEND']);
        // Of 50 dollars a day 1, 3, 4 and 18 are spent, and 30 would pass them.
        expect(await pay(controlPlane, money.gates.spent, 30)).toMatchObject({ decision: 'BLOCK' });
      });

    if (trust !== undefined)
      it('believes whom it believed, and nobody else', async () => {
        const { planner, gone, owned } = trust.tokens;
        const suspended = { decision: 'BLOCK', reason: 'passport_suspended' };
        for (const at of [sidecar, controlPlane]) {
          const decide = (token: string) => check(at, trust.gates.federated, token);
          expect(await decide(planner)).toMatchObject({ decision: 'PERMIT' });
          expect(await decide(gone)).toMatchObject(suspended);
          expect(await decide(owned)).toMatchObject(suspended);
          const { passport, proof } = trust.used;
          const again = await check(at, trust.gates.proving, passport, { ...order, proof });
          expect(again).toMatchObject({ decision: 'BLOCK' });
        }
        const { body } = await call(`${controlPlane.origin}/.well-known/sidecar-keys.json`);
        expect(JSON.stringify(body)).toContain(trust.revokedKey);
      });

    it('goes on in the chains of the version before, and all of them verify offline', async () => {
      // A sidecar that is told to stop ships what it has.
      await sidecar.stop();
      // Across what a restore lost no export is whole.
      await world.verifyExport(known.past && new Date(known.past.recoveredAtMs).toISOString());
      const ofBuyer = `/attestations?passport_id=${buyerId}&limit=200`;
      const records: Reply['body'][] = (await world.api('GET', ofBuyer)).body.attestations;
      const sequences = records.map(({ sequence }) => sequence).sort((a, b) => a - b);
      expect(sequences).toEqual(Array.from(sequences, (_, index) => index + 1));
      const ids = records.map(({ attestation_id }) => attestation_id);
      const earlier: Reply['body'][] = known.answers['/attestations'].body.attestations;
      const before = earlier.flatMap(({ attestation_id, passport_id }) =>
        passport_id === buyerId ? [attestation_id] : [],
      );
      expect(before.length).toBeGreaterThan(5);
      expect(ids).toEqual(expect.arrayContaining(before));
      expect(ids.length).toBeGreaterThan(before.length);
    });
  });
});
