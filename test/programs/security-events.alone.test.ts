import * as jose from 'jose';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { call } from '../support/base/http-client.ts';
import { measureStall } from '../support/base/machine-stall.ts';
import { expectWithin, type Timed } from '../support/base/time-promise.ts';
import { until } from '../support/base/until.ts';
import { testDatabase } from '../support/database/postgres.ts';
import { testRedis } from '../support/peers/redis.ts';
import { type Installation, installation, type Running } from '../support/programs/installation.ts';
import { bundledPrograms } from '../support/programs/programs.ts';

const issuer = 'https://people.example';
const disabled = 'https://schemas.openid.net/secevent/risc/event-type/account-disabled';
/** Of each, three sidecars: the 99th percentile is the second largest of these. */
const subjects = 40;
const boundMs = 1_000;

let database: Awaited<ReturnType<typeof testDatabase>>;
let redis: Awaited<ReturnType<typeof testRedis>>;
let world: Installation;
let controlPlane: Running;
let sidecars: readonly Running[];
let issuerId: string;
let sign: (type: string, claims: jose.JWTPayload) => Promise<string>;

beforeAll(async () => {
  const programs = await bundledPrograms();
  database = await testDatabase();
  redis = await testRedis();
  world = await installation(programs, { databaseUrl: database.url, redisUrl: redis.url });
  controlPlane = await world.startControlPlane();
  sidecars = [await world.startSidecar(), await world.startSidecar(), await world.startSidecar()];
  const { publicKey, privateKey } = await jose.generateKeyPair('ES256');
  sign = (typ, claims) =>
    new jose.SignJWT(claims)
      .setProtectedHeader({ alg: 'ES256', kid: 'one', typ })
      .setIssuer(issuer)
      .setAudience('gate')
      .setIssuedAt()
      .sign(privateKey);
  const { body } = await world.api('POST', '/issuers', {
    name: 'People',
    federation: {
      ...{ type: 'jwks', issuer, audiences: ['gate'], permissions: ['orders:create'] },
      jwks: { keys: [{ ...(await jose.exportJWK(publicKey)), kid: 'one', alg: 'ES256' }] },
    },
  });
  issuerId = body.issuer_id;
});
afterAll(async () => {
  await world?.close();
  await redis?.stop();
  await database?.drop();
});

it('of a provider bind every one of three sidecars within a second, p99', async () => {
  const gateId = await world.createGate();
  await expectWithin(boundMs, 'the last PERMIT after an event', () => suspendUnderLoad(gateId));
});

/** `ms`: from sending the event until the last request began that was permitted; p99 of all sidecars. */
async function suspendUnderLoad(gateId: string): Promise<Timed> {
  const stalledSince = measureStall();
  const lastMs: number[] = [];
  for (let n = 0; n < subjects; n++) lastMs.push(...(await suspend(gateId, crypto.randomUUID())));
  const [, second = 0] = lastMs.toSorted((one, other) => other - one);
  return { ms: second, stalledMs: stalledSince() };
}

/** Of each sidecar. */
async function suspend(gateId: string, sub: string): Promise<readonly number[]> {
  const exp = Math.floor(Date.now() / 1_000) + 600;
  const token = await sign('JWT', { sub, exp });
  const seen = sidecars.map(() => ({ permits: 0, lastPermitMs: 0, blocks: 0 }));
  const hammers = sidecars.map(async ({ origin }, place) => {
    const own = seen[place];
    while (own !== undefined && own.blocks < 3) {
      const beganMs = performance.now();
      const { status, body } = await call(`${origin}/v1/gates/${gateId}/check`, {
        key: world.adminKey,
        body: { passport: token, request: { permission_key: 'orders:create' } },
      });
      if (status === 404 || body.reason === 'issuer_untrusted' || body.reason === 'passport_malformed')
        continue;
      expect(status).toBe(200);
      if (body.decision === 'PERMIT') {
        own.permits += 1;
        own.lastPermitMs = beganMs;
      } else {
        expect(body).toMatchObject({ decision: 'BLOCK', reason: 'passport_suspended' });
        own.blocks += 1;
      }
    }
  });
  await until(() => seen.every(({ permits }) => permits > 2), { what: 'permits at each sidecar' });
  const events = { [disabled]: { subject: { format: 'iss_sub', iss: issuer, sub } } };
  const event = await sign('secevent+jwt', { jti: crypto.randomUUID(), events });
  const sentMs = performance.now();
  const answer = await fetch(`${controlPlane.origin}/v1/issuers/${issuerId}/events`, {
    method: 'POST',
    headers: { 'content-type': 'application/secevent+jwt' },
    body: event,
  });
  expect([answer.status, await answer.text()]).toEqual([202, '']);
  await Promise.all(hammers);
  return seen.map(({ lastPermitMs }) => lastPermitMs - sentMs);
}
