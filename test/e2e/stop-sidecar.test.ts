import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { call } from '../support/base/http-client.ts';
import { roomInWindow } from '../support/base/room-in-window.ts';
import { until } from '../support/base/until.ts';
import { testDatabase } from '../support/database/postgres.ts';
import { type Installation, installation } from '../support/programs/installation.ts';
import { bundledPrograms } from '../support/programs/programs.ts';

/** What a sidecar holds and nobody used is everybody's again when it ends in order. */
describe('SIGTERM of a sidecar under load', () => {
  let database: Awaited<ReturnType<typeof testDatabase>>;
  let world: Installation;
  beforeAll(async () => {
    const programs = await bundledPrograms();
    database = await testDatabase();
    world = await installation(programs, { databaseUrl: database.url });
    await world.startControlPlane();
  });
  afterAll(async () => {
    await world?.close();
    await database?.drop();
  });

  it.each(['1', '2'])('with %s threads leaves no unit leased that no PERMIT has used', async (threads) => {
    // What is left over of a day that has ended is given back to nobody.
    await roomInWindow('day', 90_000);
    const sidecar = await world.startSidecar({ SIDECAR_THREADS: threads });
    const limit = { rate_limits: { requests_per_day: 1_000_000 } };
    const gateId = await world.createGate({ constraints: limit });
    const { token } = await world.issuePassport();
    let permits = 0;
    let isOver = false;
    const client = async () => {
      while (!isOver) {
        const reply = await call(`${sidecar.origin}/v1/gates/${gateId}/check`, {
          key: world.adminKey,
          body: { passport: token, request: { permission_key: 'orders:create' } },
        }).catch(() => null);
        if (reply?.body.decision === 'PERMIT') permits += 1;
        else await new Promise((resolve) => setTimeout(resolve, 5));
      }
    };
    const clients = Array.from({ length: 8 }, client);
    await until(async () => permits > 200, { what: 'a busy gate' });
    const leased = async () => {
      const [row] = await database.sql<{ leased: number }[]>`
        SELECT coalesce(sum(leased), 0)::int AS leased FROM quota_windows WHERE counter = ${`gate_rate:${gateId}`}`;
      return row?.leased;
    };
    expect(await sidecar.stop('SIGTERM')).toBe(0);
    isOver = true;
    await Promise.all(clients);
    const [recorded] = await database.sql<{ permits: number }[]>`
      SELECT count(*)::int AS permits FROM attestations WHERE gate_id = ${gateId} AND decision = 'PERMIT'`;
    expect(recorded?.permits).toBeGreaterThanOrEqual(permits);
    expect(await leased()).toBe(recorded?.permits);
  });
});
