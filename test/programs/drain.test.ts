import { execFileSync } from 'node:child_process';
import { closeSync, constants, mkdirSync, openSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { hasCode } from '../../shared/runtime/system-error.ts';
import { call } from '../support/base/http-client.ts';
import { temporaryFolder } from '../support/base/temporary-folder.ts';
import { until } from '../support/base/until.ts';
import { testDatabase } from '../support/database/postgres.ts';
import { type Installation, installation } from '../support/programs/installation.ts';
import { bundledPrograms, type Programs } from '../support/programs/programs.ts';

let programs: Programs;
beforeAll(async () => {
  programs = await bundledPrograms();
});

/** Over a connection of its own, which may be kept if the server says nothing against it. */
function get(url: string): Promise<{ status: number; connection: string | undefined; body: string }> {
  const agent = new Agent({ keepAlive: true });
  return new Promise<{ status: number; connection: string | undefined; body: string }>((resolve, reject) => {
    request(url, { agent }, (response) => {
      const { statusCode = 0, headers } = response;
      text(response).then(
        (body) => resolve({ status: statusCode, connection: headers.connection, body }),
        reject,
      );
    })
      .once('error', reject)
      .end();
  }).finally(() => agent.destroy());
}

/** Most of it is waiting, so all of it waits at once. */
describe.concurrent('SIGTERM', () => {
  let database: Awaited<ReturnType<typeof testDatabase>>;
  let world: Installation;
  beforeAll(async () => {
    database = await testDatabase();
    world = await installation(programs, { databaseUrl: database.url });
    await world.startControlPlane();
  });
  afterAll(async () => {
    await world?.close();
    await database?.drop();
  });

  const grace = { DRAIN_GRACE_MS: '6000' };

  it.each([
    ['a control plane', () => world.startControlPlane(grace)],
    ['a sidecar', () => world.startSidecar(grace)],
    ['a sidecar of two threads', () => world.startSidecar({ ...grace, SIDECAR_THREADS: '2' })],
  ])('of %s makes it unready and close its connections while the port stays open', async (_what, start) => {
    const running = await start();
    const check = {
      passport: (await world.issuePassport()).token,
      request: { permission_key: 'orders:create' },
    };
    const gateId = await world.createGate();
    const decide = () =>
      call(`${running.origin}/v1/gates/${gateId}/check`, { key: world.adminKey, body: check });
    await until(async () => (await decide()).body.decision === 'PERMIT', { what: 'the gate is known' });
    expect((await get(`${running.origin}/livez`)).connection).not.toBe('close');

    const beganAtMs = performance.now();
    const exited = running.stop('SIGTERM');
    let ready = await get(`${running.origin}/readyz`);
    await until(
      async () => {
        ready = await get(`${running.origin}/readyz`);
        return ready.status === 503;
      },
      { what: 'it is not ready' },
    );
    expect(JSON.parse(ready.body)).toMatchObject({ status: 'not_ready', draining: true });
    const live = await get(`${running.origin}/livez`);
    expect(live).toMatchObject({ status: 200, connection: 'close' });
    expect((await decide()).body).toMatchObject({ decision: 'PERMIT' });

    expect(await exited).toBe(0);
    expect(performance.now() - beganAtMs).toBeGreaterThan(Number(grace.DRAIN_GRACE_MS) - 1);
    await expect(get(`${running.origin}/livez`)).rejects.toThrow('ECONNREFUSED');
  });

  it('says how many records it leaves behind, and the next start ships them', async () => {
    const controlPlane = await world.startControlPlane();
    const sidecar = await world.startSidecar({ CONTROL_PLANE_URL: controlPlane.origin });
    const { id, token } = await world.issuePassport();
    const gateId = await world.createGate();
    const decide = () =>
      call(`${sidecar.origin}/v1/gates/${gateId}/check`, {
        key: world.adminKey,
        body: { passport: token, request: { permission_key: 'orders:create' } },
      });
    await until(async () => (await decide()).body.decision === 'PERMIT', { what: 'the gate is known' });
    const recorded = async () =>
      Number((await database.sql`SELECT count(*) FROM attestations WHERE gate_id = ${gateId}`)[0]?.['count']);
    // Its answer too: a record that was stored, and whose sidecar does not know it, is shipped once more.
    const allAcknowledged = async () =>
      /^agent_trust_sidecar_spool_bytes(?:\{.*\})? 0$/m.test((await get(`${sidecar.origin}/metrics`)).body);
    await until(allAcknowledged, { what: 'nothing waits in the spool' });
    const shipped = await recorded();
    expect(shipped).toBeGreaterThan(0);

    await controlPlane.stop('SIGKILL');
    for (let count = 0; count < 7; count += 1) expect((await decide()).status).toBe(200);
    expect(await sidecar.stop('SIGTERM')).toBe(0);
    const line = /.*records are left in the spool.*/.exec(sidecar.program.output())?.[0] ?? '{}';
    expect(JSON.parse(line)).toMatchObject({ level: 'error', records: 7 });

    await controlPlane.start();
    await sidecar.start();
    await until(async () => (await recorded()) === shipped + 7, { what: `all records of ${id}` });
  });
});

describe.concurrent('a start that gets no further', () => {
  it.each([
    ['sidecar', 'sidecar/0/sidecar-id'],
    ['control-plane', 'master-key'],
  ])('ends on SIGTERM although a file of the %s does not answer', async (command, file) => {
    const folder = temporaryFolder();
    const path = join(folder.path, file);
    mkdirSync(join(path, '..'), { recursive: true });
    // Whoever opens it to read waits for a writer, for ever.
    execFileSync('mkfifo', [path]);
    const program = programs.start([command], {
      DATA_DIR: folder.path,
      PORT: '0',
      SIDECAR_PORT: '0',
      CONTROL_PLANE_URL: 'http://127.0.0.1:1',
      SIDECAR_API_KEY: `at_live_${'k'.repeat(40)}`,
      LOG_LEVEL: 'debug',
    });
    let writer: number | null = null;
    await until(
      () => {
        writer ??= holdReader(path);
        return writer !== null;
      },
      { what: 'the start hangs on the file' },
    );
    const exited = program.stop('SIGTERM');
    await program.waitFor(/"msg":"stopping"/);
    await exited;
    expect(program.output()).toMatch(/ending the start takes too long and is cut short/);
    if (writer !== null) closeSync(writer);
    folder.remove();
  });

  it('waits for a database that is not there with a clear message, then ends with exit code 1', async () => {
    const folder = temporaryFolder();
    const program = programs.start(['control-plane'], {
      DATABASE_URL: 'postgres://nobody:hunter2@127.0.0.1:1/nothing',
      MASTER_KEY: Buffer.alloc(32, 1).toString('base64url'),
      DATA_DIR: folder.path,
      PORT: '0',
    });
    await program.waitFor(/127\.0\.0\.1:1/);
    expect(await program.exited).toBe(1);
    expect(program.output()).toMatch(/DATABASE_URL/);
    expect(program.output()).not.toContain('hunter2');
    folder.remove();
  });
});

/**
 * Opens the FIFO for writing and writes nothing, which works only once somebody opens it to read: that one
 * then waits in its read.
 */
function holdReader(path: string): number | null {
  try {
    return openSync(path, constants.O_WRONLY | constants.O_NONBLOCK);
  } catch (error) {
    if (hasCode(error, 'ENXIO')) return null;
    throw error;
  }
}
