import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { call } from '../support/base/http-client.ts';
import { measureStall } from '../support/base/machine-stall.ts';
import { expectWithin, type Timed } from '../support/base/time-promise.ts';
import { until } from '../support/base/until.ts';
import { testDatabase } from '../support/database/postgres.ts';
import { testRedis } from '../support/peers/redis.ts';
import { type Installation, installation, type Running } from '../support/programs/installation.ts';
import { bundledPrograms, type Programs } from '../support/programs/programs.ts';
import { isPassing } from '../support/service/sidecar-pair.ts';

/** "Bind every sidecar within 100 ms of the answer with a working push, within 2 s without" (contract §4). */
describe.each([
  { push: 'Redis', boundMs: 100 },
  { push: 'no push, long poll', boundMs: 2_000 },
])('a revocation while clients hammer two sidecars, $push', ({ push, boundMs }) => {
  let programs: Programs;
  let database: Awaited<ReturnType<typeof testDatabase>>;
  let redis: Awaited<ReturnType<typeof testRedis>> | null = null;
  let world: Installation;
  let sidecars: Running[];

  beforeAll(async () => {
    programs = await bundledPrograms();
    database = await testDatabase();
    if (push === 'Redis') redis = await testRedis();
    world = await installation(programs, {
      databaseUrl: database.url,
      ...(redis === null ? {} : { redisUrl: redis.url }),
    });
    await world.startControlPlane();
    sidecars = [await world.startSidecar(), await world.startSidecar()];
  });
  afterAll(async () => {
    await world?.close();
    await redis?.stop();
    await database?.drop();
  });

  it(`permits nothing that began more than ${boundMs} ms after its answer`, async () => {
    const gateId = await world.createGate();
    await expectWithin(boundMs, 'the last permit of a revoked passport', async () => {
      const { id, token } = await world.issuePassport();
      return endUnderLoad({ gateId, token, end: `/passports/${id}/revoke`, reason: 'passport_revoked' });
    });
  });

  it(`permits nothing of a passport whose root wallet was frozen more than ${boundMs} ms before`, async () => {
    const gateId = await world.createGate();
    await expectWithin(boundMs, 'the last permit of a frozen wallet', async () => {
      const root = await world.createWallet({ limits: { monthly_usd: 1_000_000 } });
      const leaf = await world.createWallet({ parent_wallet_id: root });
      const { token } = await world.issuePassport({ wallet_id: leaf });
      return endUnderLoad({ gateId, token, end: `/wallets/${root}/freeze`, reason: 'wallet_frozen' });
    });
  });

  /** `ms`: from the answer to what ends it until the last request began that was permitted. */
  async function endUnderLoad(ended: {
    readonly gateId: string;
    readonly token: string;
    readonly end: string;
    readonly reason: string;
  }): Promise<Timed> {
    const { gateId, token, end, reason } = ended;
    const permitsBeganMs: number[] = [];
    const blocks = new Map<Running, number>(sidecars.map((sidecar) => [sidecar, 0]));
    let isOver = false;

    const hammer = async (sidecar: Running): Promise<void> => {
      while (!isOver) {
        const beganMs = performance.now();
        const reply = await call(`${sidecar.origin}/v1/gates/${gateId}/check`, {
          key: world.adminKey,
          body: { passport: token, request: { permission_key: 'orders:create', amount: 0.01 } },
        });
        if (reply.status === 404 || isPassing(reply)) continue;
        expect(reply.status).toBe(200);
        if (reply.body.decision === 'PERMIT') permitsBeganMs.push(beganMs);
        else {
          expect(reply.body).toMatchObject({ decision: 'BLOCK', reason });
          blocks.set(sidecar, (blocks.get(sidecar) ?? 0) + 1);
        }
      }
    };
    const haveBlocked = (times: number) => () => [...blocks.values()].every((count) => count >= times);
    const clients = sidecars.flatMap((sidecar) => [hammer(sidecar), hammer(sidecar)]);
    await until(() => permitsBeganMs.length > 200, { what: '200 permits before the end' });

    const answer = await world.api('POST', end, {});
    const answeredMs = performance.now();
    const stalledSince = measureStall();
    expect(answer.status).toBe(200);
    await until(haveBlocked(1), { what: 'a block at each sidecar' });
    // It was on its way until now.
    const stalledMs = stalledSince();
    await until(haveBlocked(50), { what: '50 blocks at each sidecar' });
    isOver = true;
    await Promise.all(clients);
    return { ms: Math.max(...permitsBeganMs) - answeredMs, stalledMs };
  }

  it('waits for the acknowledgement of every connected sidecar when asked to', async () => {
    const { id } = await world.issuePassport();
    const revocation = await world.api('POST', `/passports/${id}/revoke?wait_ms=5000`, {});
    expect(revocation.body).toMatchObject({
      status: 'revoked',
      reason: 'unspecified',
      propagation: { sidecars: 2, acknowledged: 2 },
    });
  });
});
