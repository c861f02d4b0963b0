import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { call } from '../support/http-client.ts';
import { type Installation, installation, type Running } from '../support/installation.ts';
import { testDatabase } from '../support/postgres.ts';
import { bundledPrograms, type Programs } from '../support/programs.ts';
import { testRedis } from '../support/redis.ts';
import { until } from '../support/until.ts';

/** What a client was told stays true when the sidecar is killed in the middle of its work. */
describe('kill -9 of a sidecar under load', () => {
  let programs: Programs;
  let database: Awaited<ReturnType<typeof testDatabase>>;
  let redis: Awaited<ReturnType<typeof testRedis>>;
  let world: Installation;
  let sidecar: Running;

  beforeAll(async () => {
    programs = await bundledPrograms();
    database = await testDatabase();
    redis = await testRedis();
    world = await installation(programs, { databaseUrl: database.url, redisUrl: redis.url });
    await world.startControlPlane();
    sidecar = await world.startSidecar();
  });
  afterAll(async () => {
    await world?.close();
    await redis?.stop();
    await database?.drop();
  });

  it('leaves exactly one attestation for every answer that a client received', async () => {
    const gateId = await world.createGate();
    const passports = await Promise.all(Array.from({ length: 4 }, () => world.issuePassport()));
    await until(async () => (await check(gateId, passports[0]?.token ?? '', 0)) !== null, {
      what: 'a first answer',
    });

    const answered: string[] = [];
    let isOver = false;
    const clients = passports.flatMap(({ token }, client) =>
      [0, 1].map(async (half) => {
        for (let n = 0; !isOver; n++) {
          const id = await check(gateId, token, client * 1_000_000 + half * 500_000 + n);
          if (id === null) await new Promise((resolve) => setTimeout(resolve, 5));
          else answered.push(id);
        }
      }),
    );
    for (let kill = 1; kill <= 3; kill++) {
      const enough = answered.length + 150;
      await until(() => answered.length >= enough, {
        what: `answers before kill ${kill}`,
      });
      await sidecar.restart('SIGKILL');
    }
    const enough = answered.length + 150;
    await until(() => answered.length >= enough, { what: 'answers after the last kill' });
    isOver = true;
    await Promise.all(clients);

    expect(new Set(answered).size).toBe(answered.length);
    await until(async () => (await storedCounts(answered)).size === answered.length, {
      what: 'all records at the control plane',
    });
    expect([...(await storedCounts(answered)).values()].every((count) => count === 1)).toBe(true);
    await world.verifyExport();
  });

  /** The id of the answered decision, or null where no whole answer came. */
  async function check(gateId: string, token: string, n: number): Promise<string | null> {
    const reply = await call(`${sidecar.origin}/v1/gates/${gateId}/check`, {
      key: world.adminKey,
      body: { passport: token, request: { permission_key: 'orders:create', n } },
    }).catch(() => null);
    if (reply === null || reply.status !== 200) return null;
    expect(reply.body.decision).toBe('PERMIT');
    return reply.body.attestation_id;
  }

  async function storedCounts(ids: readonly string[]): Promise<Map<string, number>> {
    const rows = await database.sql<{ attestation_id: string; count: number }[]>`
      SELECT attestation_id, count(*) AS count FROM attestations
      WHERE attestation_id = ANY(${ids as string[]}) GROUP BY attestation_id`;
    return new Map(rows.map((row) => [row.attestation_id, Number(row.count)]));
  }
});
