import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { call, type Reply } from '../support/base/http-client.ts';
import { roomInWindow } from '../support/base/room-in-window.ts';
import { until } from '../support/base/until.ts';
import { testDatabaseServer } from '../support/database/postgres.ts';
import { testRedis } from '../support/peers/redis.ts';
import { type Installation, installation, type Running } from '../support/programs/installation.ts';
import { bundledPrograms } from '../support/programs/programs.ts';
import { isPassing } from '../support/service/sidecar-pair.ts';

/**
 * A request that waits for a person, and everybody who would like to have it without one. Two sidecars, two
 * control planes, as they are run.
 */
describe('the story of an approval', () => {
  let database: Awaited<ReturnType<typeof testDatabaseServer>>;
  let redis: Awaited<ReturnType<typeof testRedis>>;
  let world: Installation;
  let controlPlanes: readonly [Running, Running];
  let sidecars: readonly [Running, Running];

  /** More than all the stories take: the sums that they hold and spend are of one day. */
  const storiesMsMax = 240_000;

  beforeAll(async () => {
    await roomInWindow('day', storiesMsMax);
    const programs = await bundledPrograms();
    database = await testDatabaseServer();
    redis = await testRedis();
    world = await installation(programs, { databaseUrl: database.url, redisUrl: redis.url });
    controlPlanes = [await world.startControlPlane(), await world.startControlPlane()];
    // Each sidecar has a control plane of its own: what they agree on, they agree on in the database.
    sidecars = [
      await world.startSidecar({ CONTROL_PLANE_URL: controlPlanes[0].origin }),
      await world.startSidecar({ CONTROL_PLANE_URL: controlPlanes[1].origin }),
    ];
  }, 120_000 + storiesMsMax);
  afterAll(async () => {
    await world?.close();
    await redis?.stop();
    await database?.stop();
  });

  const check = (at: Running, gateId: string, token: string, request: object): Promise<Reply> =>
    call(`${at.origin}/v1/gates/${gateId}/check`, {
      key: world.adminKey,
      body: { passport: token, request },
    });

  /**
   * Asks until something is decided: right after a start the gate may not be known yet, and a busy machine
   * answers `quota_unavailable`.
   */
  async function decided(
    at: Running,
    gateId: string,
    token: string,
    request: object,
  ): Promise<Reply['body']> {
    let body: Reply['body'] = null;
    await until(
      async () => {
        const reply = await check(at, gateId, token, request).catch(() => null);
        body = reply?.body;
        return reply?.status === 200 && body.reason !== 'quota_unavailable';
      },
      { what: 'a decision' },
    );
    return body;
  }
  const decidedByBoth = async (gateId: string, token: string, request: object): Promise<string[]> => {
    const bodies = [];
    for (const sidecar of sidecars) bodies.push(await decided(sidecar, gateId, token, request));
    return bodies.map(({ decision, reason }) => reason ?? decision);
  };

  const resolve = (at: Running, approvalId: string, word: 'approve' | 'deny') =>
    call(`${at.origin}/v1/approvals/${approvalId}/${word}`, { key: world.adminKey, body: { note: word } });
  const approval = async (approvalId: string): Promise<Reply['body']> =>
    (await world.api('GET', `/approvals/${approvalId}`)).body;
  const recordsOf = async (gateId: string): Promise<Reply['body'][]> =>
    (await world.api('GET', `/attestations?gate_id=${gateId}&limit=500`)).body.attestations;

  /**
   * Above 50 dollars somebody is asked; no more than 100 a day. With a key, so that an answer that was lost
   * can be asked for again.
   */
  let orders = 0;
  async function suspended(approvals: object = {}) {
    const gateId = await world.createGate({
      constraints: { spend_limits: { daily_usd: 100 }, approvals: { above_usd: 50, ...approvals } },
    });
    const passport = await world.issuePassport();
    const order = { permission_key: 'orders:create', amount: 80, idempotency_key: `order-${++orders}` };
    const body = await decided(sidecars[0], gateId, passport.token, order);
    expect(body).toMatchObject({ decision: 'SUSPEND', reason: 'approval_required', attestation_id: null });
    const approvalId: string = body.approval_id;
    return { gateId, passport, order, approvalId, approved: { ...order, approval_id: approvalId } };
  }

  it('it is used once, however many present it at once, and a replay has no use of it', async () => {
    const { gateId, passport, order, approvalId, approved } = await suspended();
    expect((await resolve(controlPlanes[1], approvalId, 'approve')).status).toBe(200);
    // The same request under no key: each of them would be another PERMIT.
    const { idempotency_key: _, ...plain } = order;
    expect(await decidedByBoth(gateId, passport.token, { ...plain, approval_id: approvalId })).toEqual([
      'approval_mismatch',
      'approval_mismatch',
    ]);
    const replies = await Promise.all(
      [...sidecars, ...controlPlanes, ...sidecars].map((at) => check(at, gateId, passport.token, approved)),
    );
    const others = replies.filter(({ status }) => status !== 200);
    expect(others.filter((reply) => !isPassing(reply))).toEqual([]);
    const first = await decided(sidecars[1], gateId, passport.token, approved);
    expect(first.decision).toBe('PERMIT');
    const ids = replies.flatMap(({ body }) => (body.decision === 'PERMIT' ? [body.attestation_id] : []));
    expect(new Set([...ids, first.attestation_id]).size).toBe(1);
    // A replay under another name of the same order waits for a person anew, or is blocked: its money is
    // spent.
    const again = { ...approved, idempotency_key: 'another' };
    expect(await decidedByBoth(gateId, passport.token, again)).toEqual([
      'approval_mismatch',
      'approval_mismatch',
    ]);
    expect((await approval(approvalId)).status).toBe('used');
    expect((await recordsOf(gateId)).filter(({ decision }) => decision === 'PERMIT')).toHaveLength(1);
  });

  it('survives kills and restarts while it is pending, and again before it is used', async () => {
    const { gateId, passport, order, approvalId, approved } = await suspended();
    const killEverything = async () => {
      await Promise.all([...sidecars, ...controlPlanes].map((one) => one.stop('SIGKILL')));
      await database.stopServer();
      await redis.restart();
      await database.startServer();
      await Promise.all(controlPlanes.map((one) => one.start()));
      await Promise.all(sidecars.map((one) => one.start()));
    };

    await killEverything();
    expect(await decided(sidecars[1], gateId, passport.token, order)).toMatchObject({
      decision: 'SUSPEND',
      approval_id: approvalId,
    });
    // Its 80 dollars are held: 20 are left of the day.
    const small = { permission_key: 'orders:create', amount: 21, note: 'too much' };
    expect((await decided(sidecars[0], gateId, passport.token, small)).reason).toBe('spend_limit_exceeded');
    expect((await resolve(controlPlanes[0], approvalId, 'approve')).status).toBe(200);

    await killEverything();
    const used = await decided(sidecars[0], gateId, passport.token, approved);
    expect(used.decision).toBe('PERMIT');

    await killEverything();
    expect(await decided(sidecars[1], gateId, passport.token, approved)).toEqual(used);
    expect((await approval(approvalId)).status).toBe('used');
    expect((await decided(sidecars[1], gateId, passport.token, small)).reason).toBe('spend_limit_exceeded');
    expect((await recordsOf(gateId)).filter(({ decision }) => decision === 'PERMIT')).toHaveLength(1);
  }, 180_000);

  it('leaves chains behind that a stranger can verify', async () => {
    await world.verifyExport();
  });
});
