import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { limits } from '../../shared/model/limits.ts';
import { call } from '../support/base/http-client.ts';
import { runs } from '../support/base/runs.ts';
import { until } from '../support/base/until.ts';
import { testDatabase } from '../support/database/postgres.ts';
import { testRedis } from '../support/peers/redis.ts';
import { type Installation, installation, type Running } from '../support/programs/installation.ts';
import { bundledPrograms } from '../support/programs/programs.ts';

const kills = runs({ short: 3, long: 20 });
/** In most pauses a settlement is under way. */
const pausesMax = 30;

/**
 * What a sidecar held when it was killed comes back when its folder does: nothing is stranded, and no unit is
 * given out twice.
 */
describe('kill -9 of a sidecar, again and again', () => {
  let database: Awaited<ReturnType<typeof testDatabase>>;
  let redis: Awaited<ReturnType<typeof testRedis>>;
  let world: Installation;
  let sidecar: Running;

  beforeAll(async () => {
    const programs = await bundledPrograms();
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

  it('leaves exactly the units counted that a PERMIT on record took', async () => {
    const constraints = {
      rate_limits: { requests_per_day: 10_000_000 },
      spend_limits: { monthly_usd: 1_000_000 },
    };
    const gateId = await world.createGate({ constraints });
    const passports = await Promise.all(
      Array.from({ length: 3 }, () =>
        world.issuePassport({ constraints: { rate_limits: { requests_per_day: 1_000_000 } } }),
      ),
    );
    let answered = 0;
    let isOver = false;
    const clients = passports.flatMap(({ token }, place) =>
      [0, 1].map(async (half) => {
        for (let n = 0; !isOver; n++) {
          // Some under a key: their PERMITs are settled at the control plane, and never in the spool.
          const key = n % 2 === 0 ? { idempotency_key: `${place}-${half}-${n}` } : {};
          if (await check(gateId, token, { n, ...key })) answered++;
          else await new Promise((resolve) => setTimeout(resolve, 5));
        }
      }),
    );
    let held = 0;
    for (let kill = 1; kill <= kills; kill++) {
      const enough = answered + 40;
      await until(() => answered >= enough, { what: `answers before kill ${kill}`, timeoutMs: 60_000 });
      await sidecar.stop('SIGKILL');
      held += await unitsHeld();
      await sidecar.start();
    }
    // What is committed while its sidecar stands still is answered 503: it comes to nothing, with its units.
    for (let pauses = 0; (await voided()) === 0; pauses++) {
      expect(pauses, 'pauses until a settlement is under way').toBeLessThan(pausesMax);
      const enough = answered + 10;
      await until(() => answered >= enough, { what: 'answers before a pause' });
      process.kill(sidecar.program.pid, 'SIGSTOP');
      await pause(1.5 * limits.decisionDeadlineMs);
      process.kill(sidecar.program.pid, 'SIGCONT');
      await until(() => answered >= enough + 10, { what: 'answers after a pause' });
    }
    isOver = true;
    await Promise.all(clients);
    expect(held, 'units that a killed sidecar held, or nothing is shown').toBeGreaterThan(kills);

    // What the living sidecar holds ahead of need goes back by itself.
    await until(async () => (await stranded()) === 0, {
      what: 'as many units counted as PERMITs on record',
      timeoutMs: 20_000,
    }).catch(() => undefined);
    expect(await stranded()).toBe(0);
    const [left] = await database.sql<{ holders: number }[]>`
      SELECT count(*)::int AS holders FROM lease_holders`;
    expect(left?.holders, 'holders of dead processes').toBe(1);
  }, 600_000);

  const check = async (gateId: string, token: string, request: object): Promise<boolean> => {
    const reply = await call(`${sidecar.origin}/v1/gates/${gateId}/check`, {
      key: world.adminKey,
      body: { passport: token, request: { permission_key: 'orders:create', amount: 0.25, ...request } },
    }).catch(() => null);
    if (reply?.status !== 200) return false;
    expect(['PERMIT', 'BLOCK']).toContain(reply.body.decision);
    return reply.body.decision === 'PERMIT';
  };

  /** Requests that holders have and no record took. */
  async function unitsHeld(): Promise<number> {
    const [row] = await database.sql<{ units: number }[]>`
      SELECT coalesce(sum(l.units - coalesce(p.units, 0)), 0)::int AS units FROM quota_leases l
      LEFT JOIN (SELECT lease_id, sum(units) AS units FROM lease_posts GROUP BY 1) p USING (lease_id)
      WHERE split_part(counter, ':', 1) LIKE '%_rate'`;
    return row?.units ?? 0;
  }

  async function voided(): Promise<number> {
    const [row] = await database.sql<{ count: number }[]>`
      SELECT count(*)::int AS count FROM attestations WHERE resolution = 'voided'`;
    return row?.count ?? 0;
  }

  /**
   * Units of the ledger without a PERMIT that stands; negative: more was permitted than is counted. Of the
   * first counter where they differ.
   */
  async function stranded(): Promise<number> {
    const [permitted] = await database.sql<{ count: number; money: number }[]>`
      SELECT count(*)::int AS count, coalesce(sum(amount_micro_usd), 0)::bigint AS money
      FROM attestations a WHERE decision = 'PERMIT' AND resolution IS NULL
        AND NOT EXISTS (SELECT FROM attestations v WHERE v.refers_to = a.attestation_id AND v.resolution = 'voided')`;
    const rows = await database.sql<{ kind: string; leased: number }[]>`
      SELECT split_part(counter, ':', 1) AS kind, sum(leased)::bigint AS leased FROM quota_windows
      WHERE split_part(counter, ':', 1) <> 'plan' GROUP BY 1`;
    expect(rows.map(({ kind }) => kind).sort()).toEqual(['gate_rate', 'gate_spend', 'passport_rate']);
    const differences = rows.map(({ kind, leased }) =>
      kind === 'gate_spend' ? leased - (permitted?.money ?? 0) : leased - (permitted?.count ?? 0),
    );
    return differences.find((difference) => difference !== 0) ?? 0;
  }
});
