import { afterAll, beforeAll, expect, it } from 'vitest';
import { call } from '../support/http-client.ts';
import { type Installation, installation, type Running } from '../support/installation.ts';
import { measureStall } from '../support/machine-stall.ts';
import { testDatabase } from '../support/postgres.ts';
import { bundledPrograms } from '../support/programs.ts';
import { testRedis } from '../support/redis.ts';
import { isPassing } from '../support/sidecar-pair.ts';
import { expectWithin, type Timed } from '../support/time-promise.ts';
import { until } from '../support/until.ts';

let database: Awaited<ReturnType<typeof testDatabase>>;
let redis: Awaited<ReturnType<typeof testRedis>>;
let world: Installation;
let sidecars: Running[];

beforeAll(async () => {
  const programs = await bundledPrograms();
  database = await testDatabase();
  redis = await testRedis();
  world = await installation(programs, { databaseUrl: database.url, redisUrl: redis.url });
  await world.startControlPlane();
  sidecars = [await world.startSidecar(), await world.startSidecar(), await world.startSidecar()];
});
afterAll(async () => {
  await world?.close();
  await redis?.stop();
  await database?.drop();
});

/** A freeze binds as a revocation does (contract §4): every sidecar within 100 ms of the answer. */
it('a freeze of a wallet permits nothing that began more than 100 ms after its answer', async () => {
  const gateId = await world.createGate();
  await expectWithin(100, 'the last PERMIT of a frozen wallet', () => freezeUnderLoad(gateId));
});

/** The root of the passport's wallet is frozen. `ms` as of a revocation. */
async function freezeUnderLoad(gateId: string): Promise<Timed> {
  const made = async (path: string, body: object) => (await world.api('POST', path, body)).body;
  const { wallet_id: root } = await made('/wallets', { name: 'root', limits: { monthly_usd: 1_000_000 } });
  const { wallet_id: leaf } = await made('/wallets', { name: 'leaf', parent_wallet_id: root });
  const { token } = await world.issuePassport({ wallet_id: leaf });
  const permitsBeganMs: number[] = [];
  const frozen = new Map<Running, number>(sidecars.map((sidecar) => [sidecar, 0]));
  let isOver = false;
  const hammer = async (sidecar: Running): Promise<void> => {
    while (!isOver) {
      const beganMs = performance.now();
      const { status, body } = await call(`${sidecar.origin}/v1/gates/${gateId}/check`, {
        key: world.adminKey,
        body: { passport: token, request: { permission_key: 'orders:create', amount: 0.01 } },
      });
      if (status === 404 || isPassing({ status, body })) continue;
      expect(status, JSON.stringify(body)).toBe(200);
      if (body.decision === 'PERMIT') permitsBeganMs.push(beganMs);
      else {
        expect(body).toMatchObject({ decision: 'BLOCK', reason: 'wallet_frozen' });
        frozen.set(sidecar, (frozen.get(sidecar) ?? 0) + 1);
      }
    }
  };
  const haveBlocked = (times: number) => () => [...frozen.values()].every((count) => count >= times);
  const clients = sidecars.map(hammer);
  await until(() => permitsBeganMs.length > 200, { what: '200 PERMITs before the freeze' });
  const answer = await world.api('POST', `/wallets/${root}/freeze`, {});
  const answeredMs = performance.now();
  const stalledSince = measureStall();
  expect(answer.status).toBe(200);
  await until(haveBlocked(1), { what: 'a BLOCK at each sidecar' });
  const stalledMs = stalledSince();
  await until(haveBlocked(50), { what: '50 BLOCKs at each sidecar' });
  isOver = true;
  await Promise.all(clients);
  return { ms: Math.max(...permitsBeganMs) - answeredMs, stalledMs };
}
