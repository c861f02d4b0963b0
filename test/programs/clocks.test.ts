import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { dayMs, minuteMs, secondMs } from '../../shared/model/time.ts';
import { call, type Reply } from '../support/base/http-client.ts';
import { roomInWindow } from '../support/base/room-in-window.ts';
import { until } from '../support/base/until.ts';
import { type TestDatabase, testDatabase } from '../support/database/postgres.ts';
import { type Installation, installation, type Running } from '../support/programs/installation.ts';
import { bundledPrograms } from '../support/programs/programs.ts';

/**
 * Programs on machines whose clocks are wrong, and programs that are stopped: separate processes, as an
 * operator runs them. Most of it is waiting, so all of it waits at once.
 */
const preload = `--import ${fileURLToPath(new URL('../support/peers/wrong-clock.mjs', import.meta.url))}`;
const clockAhead = (aheadMs: number) => ({ NODE_OPTIONS: preload, CLOCK_AHEAD_MS: String(aheadMs) });

let database: TestDatabase;
let world: Installation;

beforeAll(async () => {
  database = await testDatabase();
  world = await installation(await bundledPrograms(), { databaseUrl: database.url });
  await world.startControlPlane();
});
afterAll(async () => {
  await world?.close();
  await database?.drop();
});

const order = { permission_key: 'orders:create' };
const check = (at: Running, gateId: string, passport: string): Promise<Reply> =>
  call(`${at.origin}/v1/gates/${gateId}/check`, {
    key: world.adminKey,
    body: { passport, request: order },
  });

/** Resolves when the program decides about the gate and the passport. */
const decides = (at: Running, gateId: string, passport: string) =>
  until(async () => (await check(at, gateId, passport)).body.decision === 'PERMIT', { what: 'a PERMIT' });

const attestation = async (id: string): Promise<Reply['body']> => {
  let body: Reply['body'] = null;
  await until(
    async () => {
      const reply = await world.api('GET', `/attestations/${id}`);
      body = reply.body;
      return reply.status === 200;
    },
    { what: `attestation ${id}` },
  );
  return body;
};

describe.concurrent('a control plane on a machine whose clock is wrong', () => {
  it('names the windows of the database, as the others do: no cap is passed in a true minute', async () => {
    const others = await Promise.all([
      world.startControlPlane(clockAhead(90 * secondMs)),
      world.startControlPlane(clockAhead(-90 * secondMs)),
    ]);
    const limit = 5;
    const gateId = await world.createGate({ constraints: { rate_limits: { requests_per_minute: limit } } });
    const { token } = await world.issuePassport();
    await roomInWindow('minute', 15 * secondMs);
    const decisions: string[] = [];
    for (let i = 0; i < 3 * limit; i++) {
      for (const each of others) decisions.push((await check(each, gateId, token)).body.decision);
    }
    expect(decisions.filter((decision) => decision === 'PERMIT')).toHaveLength(limit);
    await Promise.all(others.map((each) => each.stop()));
  });
});

describe.concurrent('a sidecar on a machine whose clock is wrong', () => {
  it('judges the end of a passport by the time of the control plane', async () => {
    const slow = await world.startSidecar(clockAhead(-50 * secondMs));
    const gateId = await world.createGate({ trust_level: 'L3' });
    const { token: lasting } = await world.issuePassport({ trust_tier: 'L3' });
    // It knows the gate before the short one begins.
    await decides(slow, gateId, lasting);
    const { id, token } = await world.issuePassport({ trust_tier: 'L3', expires_in: '10s' });
    await decides(slow, gateId, token);
    const isExpired = async () => (await world.api('GET', `/passports/${id}/verify`)).body.is_expired;
    await until(isExpired, { what: 'the end of the passport' });
    // The two do not know the time to the millisecond; by its own clock it would permit for 50 s more.
    const blocks = async () => (await check(slow, gateId, token)).body.reason === 'passport_expired';
    await until(blocks, { what: 'a BLOCK', timeoutMs: 30_000 });
    const readiness = await call(`${slow.origin}/readyz`);
    expect(readiness.body.control_plane.clock_is_off).toBe(true);
    expect(Math.abs(readiness.body.control_plane.clock_offset_ms + 50 * secondMs)).toBeLessThan(2 * secondMs);
    await slow.stop();
  });

  it.each([2 * dayMs, -2 * dayMs])(
    'is not ready when it is off by %s ms, and yet each of its records is taken, with its true time',
    async (aheadMs) => {
      const wrong = await world.startSidecar(clockAhead(aheadMs), { isReady: false });
      const gateId = await world.createGate();
      const { token } = await world.issuePassport();
      await decides(wrong, gateId, token);
      expect((await call(`${wrong.origin}/readyz`)).status).toBe(503);
      const { body } = await check(wrong, gateId, token);
      expect(body.decision).toBe('PERMIT');
      const { timestamp } = await attestation(body.attestation_id);
      expect(Math.abs(Date.parse(timestamp) - Date.now())).toBeLessThan(minuteMs);
      const { spool } = (await call(`${wrong.origin}/readyz`)).body;
      expect(spool.voided_records).toEqual({ refused: 0, damaged: 0, missing: 0 });
      await wrong.stop();
    },
  );
});

describe.concurrent('a sidecar that was stopped', () => {
  it('permits no revoked passport to requests that waited, without any push', async () => {
    const sidecar = await world.startSidecar();
    const gateId = await world.createGate();
    const { id, token } = await world.issuePassport();
    const { token: sound } = await world.issuePassport();
    await decides(sidecar, gateId, token);
    await decides(sidecar, gateId, sound);

    process.kill(sidecar.program.pid, 'SIGSTOP');
    const waiting = Array.from({ length: 120 }, (_, i) =>
      check(sidecar, gateId, i % 10 === 0 ? sound : token),
    );
    // Longer than a long poll: the last one has been answered before the revocation, and its answer waits in
    // the socket as the requests do.
    await pause(1_500);
    expect((await world.api('POST', `/passports/${id}/revoke`, {})).status).toBe(200);
    process.kill(sidecar.program.pid, 'SIGCONT');

    const answers = await Promise.all(waiting);
    const said = (body: Reply['body']) => body.reason ?? body.decision;
    expect(new Set(answers.filter((_, i) => i % 10 !== 0).map(({ body }) => said(body)))).toEqual(
      new Set(['passport_revoked']),
    );
    expect(new Set(answers.filter((_, i) => i % 10 === 0).map(({ body }) => said(body)))).toEqual(
      new Set(['PERMIT']),
    );
    await sidecar.stop();
  });

  it('decides by the age of its state while the control plane is unreachable, and counts the sleep of its machine', async () => {
    const gateway = await world.startControlPlane();
    const sidecar = await world.startSidecar({
      NODE_OPTIONS: preload,
      CLOCK_SLEEPS: '1',
      CONTROL_PLANE_URL: gateway.origin,
    });
    const strict = await world.createGate({ trust_level: 'L3' });
    const lenient = await world.createGate();
    const { token } = await world.issuePassport({ trust_tier: 'L3' });
    await decides(sidecar, strict, token);
    await decides(sidecar, lenient, token);
    await gateway.stop('SIGKILL');
    expect((await check(sidecar, strict, token)).body.decision).toBe('PERMIT');

    process.kill(sidecar.program.pid, 'SIGSTOP');
    await pause(6_000);
    process.kill(sidecar.program.pid, 'SIGCONT');
    expect((await check(sidecar, strict, token)).body).toMatchObject({ reason: 'state_stale' });
    expect((await check(sidecar, lenient, token)).body.decision).toBe('PERMIT');
    await sidecar.stop();
  });
});

describe.concurrent('a sidecar that starts while the control plane is away', () => {
  it('goes by the clock of its machine, at gates that decide on an old state only, until it gets the true time', async () => {
    const gateway = await world.startControlPlane();
    const aheadMs = -30 * secondMs;
    const sidecar = await world.startSidecar({ ...clockAhead(aheadMs), CONTROL_PLANE_URL: gateway.origin });
    const strict = await world.createGate({ trust_level: 'L3' });
    const lenient = await world.createGate();
    const { token } = await world.issuePassport({ trust_tier: 'L3' });
    await decides(sidecar, lenient, token);
    await gateway.stop();

    await sidecar.restart('SIGTERM');
    const readiness = (await call(`${sidecar.origin}/readyz`)).body;
    expect(readiness.control_plane).toMatchObject({ clock_offset_ms: null, clock_is_off: false });
    expect((await check(sidecar, strict, token)).body).toMatchObject({ reason: 'state_stale' });
    expect((await check(sidecar, lenient, token)).status).toBe(200);

    await gateway.start();
    await until(async () => (await call(`${sidecar.origin}/readyz`)).body.control_plane.clock_is_off, {
      what: 'the true time at the sidecar',
    });
    const { body } = await check(sidecar, strict, token);
    const { timestamp } = await attestation(body.attestation_id);
    expect(Math.abs(Date.parse(timestamp) - Date.now())).toBeLessThan(20 * secondMs);
    await sidecar.stop();
    await gateway.stop();
  });
});
