import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { type Balancer, balancerOf } from '../../bench/harness/balancer.ts';
import { connect } from '../../control-plane/storage/connect.ts';
import { minuteMs, secondMs } from '../../shared/model/time.ts';
import { call } from '../support/base/http-client.ts';
import { roomInWindow } from '../support/base/room-in-window.ts';
import { type SteadyLoad, steadyLoad, type Tally } from '../support/base/steady-load.ts';
import { expectWithin, timeUntil } from '../support/base/time-promise.ts';
import { until } from '../support/base/until.ts';
import { testDatabaseServer } from '../support/database/postgres.ts';
import { type Installation, installation, type Running } from '../support/programs/installation.ts';
import { bundledPrograms } from '../support/programs/programs.ts';

/**
 * Control planes and the database are restarted under load, behind a balancer, while two sidecars decide at a
 * gate with limits. It is used to far less than 80 %.
 */
let database: Awaited<ReturnType<typeof testDatabaseServer>>;
let world: Installation;
let controlPlanes: readonly [Running, Running];
let balancer: Balancer;
let sidecars: readonly [Running, Running];
let gateId: string;
let token: string;
let load: SteadyLoad;
let startLoad: () => SteadyLoad;

const everyMs = 20;
/** The day does not end while the tests below run; before midnight UTC they wait for the next one. */
const roomMs = 5 * minuteMs;

beforeAll(async () => {
  // As users run it.
  database = await testDatabaseServer({ isDebian: true });
  world = await installation(await bundledPrograms(), { databaseUrl: database.url });
  controlPlanes = [await world.startControlPlane(), await world.startControlPlane()];
  balancer = await balancerOf(controlPlanes.map(({ origin }) => origin));
  const env = { CONTROL_PLANE_URL: balancer.origin };
  sidecars = [await world.startSidecar(env), await world.startSidecar(env)];
  gateId = await world.createGate({
    trust_level: 'L3',
    constraints: {
      rate_limits: { requests_per_day: 1_000_000 },
      spend_limits: { daily_usd: 1_000_000 },
    },
  });
  token = (await world.issuePassport({ trust_tier: 'L3' })).token;
  const urls = sidecars.map(({ origin }) => `${origin}/v1/gates/${gateId}/check`);
  const body = { passport: token, request: { permission_key: 'orders:create', amount: 0.5 } };
  for (const url of urls) {
    await until(async () => (await call(url, { key: world.adminKey, body })).body.decision === 'PERMIT', {
      what: 'a PERMIT',
    });
  }
  await roomInWindow('day', roomMs);
  startLoad = () => steadyLoad({ urls, key: world.adminKey, body, everyMs });
  load = startLoad();
}, 180_000 + roomMs);
afterAll(async () => {
  await load?.stop();
  await balancer?.close();
  await world?.close();
  await database?.stop();
});

/** What was answered from a while before it until a while after it. */
async function during(work: () => Promise<unknown>): Promise<Tally> {
  // Until the pace is known, and leased ahead for.
  await pause(3 * secondMs);
  load.take();
  await work();
  await pause(3 * secondMs);
  return load.take();
}

const sum = (tally: Tally): number => Object.values(tally).reduce((all, count) => all + count, 0);

describe('a gate that is far from its limits', () => {
  it('does not notice a rolling restart of the control planes', async () => {
    const tally = await during(async () => {
      for (const each of controlPlanes) await each.restart('SIGTERM');
    });
    expect(sum(tally)).toBeGreaterThan(100);
    expect(tally).toEqual({ PERMIT: sum(tally) });
  });

  it('hardly notices the crash of a control plane', async () => {
    const tally = await during(() => controlPlanes[0].stop('SIGKILL'));
    await controlPlanes[0].start();
    expect(sum(tally)).toBeGreaterThan(100);
    expect(tally['quota_unavailable'] ?? 0).toBeLessThan(sum(tally) / 100);
    expect((tally['PERMIT'] ?? 0) / sum(tally)).toBeGreaterThan(0.99);
  });

  it('hardly notices that no control plane answers for two seconds', async () => {
    const tally = await during(async () => {
      for (const { program } of controlPlanes) process.kill(program.pid, 'SIGSTOP');
      await pause(2 * secondMs);
      for (const { program } of controlPlanes) process.kill(program.pid, 'SIGCONT');
    });
    expect(sum(tally)).toBeGreaterThan(100);
    expect(tally['quota_unavailable'] ?? 0).toBeLessThan(sum(tally) / 100);
  });

  it('does not notice a restart of the database', async () => {
    let awayMs = 0;
    const tally = await during(async () => {
      const beganAtMs = performance.now();
      await database.stopServer();
      await database.startServer();
      awayMs = performance.now() - beganAtMs;
    });
    // On a machine that is so busy that a restart takes longer than units are leased ahead for, nothing is
    // promised.
    if (awayMs < 3 * secondMs) expect(tally['quota_unavailable'] ?? 0).toBe(0);
    expect(sum(tally)).toBeGreaterThan(100);
  });

  it('decides again soon after the control planes are back, where its state had become stale', async () => {
    const hasSeen = (what: string) => () => (load.take()[what] ?? 0) > 0;
    await expectWithin(1.5 * secondMs, 'a PERMIT again', async () => {
      const running = controlPlanes.filter(({ program }) => program.isRunning);
      await Promise.all(running.map((each) => each.stop('SIGKILL')));
      await until(hasSeen('state_stale'), { what: 'a stale state' });
      await controlPlanes[0].start();
      load.take();
      return timeUntil(hasSeen('PERMIT'), 'a PERMIT');
    });
    await controlPlanes[1].start();
  });

  it('gets units leased ahead back within two seconds of the last request', async () => {
    const sql = connect({ url: database.url, connectionsMax: 1 });
    onTestFinished(() => sql.end());
    const leased = async () => {
      const [row] = await sql<{ units: number }[]>`
        SELECT sum(leased)::bigint AS units FROM quota_windows
        WHERE counter = ${`gate_rate:${gateId}`} AND window_name = 'day'`;
      return row?.units;
    };
    await expectWithin(2 * secondMs, 'only what was taken is given out', async () => {
      // Until it is leased ahead for.
      await pause(secondMs);
      await load.stop();
      const taken = (await Promise.all(sidecars.map(takesOf))).reduce((all, each) => all + each, 0);
      expect(taken).toBeGreaterThan(100);
      const time = await timeUntil(async () => (await leased()) === taken, 'the rest is back');
      load = startLoad();
      return time;
    });
  });
});

/** Requests that have taken from the leases of a sidecar since its start. */
async function takesOf({ origin }: Running): Promise<number> {
  const { body } = await call(`${origin}/metrics`);
  const [, takes] = /^agent_trust_sidecar_lease_takes_total (\d+)$/m.exec(body) ?? [];
  return Number(takes);
}
