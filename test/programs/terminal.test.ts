import { type ChildProcess, spawn } from 'node:child_process';
import { openSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freePort } from '../support/base/free-port.ts';
import { call } from '../support/base/http-client.ts';
import { temporaryFolder } from '../support/base/temporary-folder.ts';
import { until } from '../support/base/until.ts';
import { testDatabase } from '../support/database/postgres.ts';
import { type Installation, installation } from '../support/programs/installation.ts';
import { bundledPrograms } from '../support/programs/programs.ts';
import { sharedService } from '../support/run/shared-services.ts';

let database: Awaited<ReturnType<typeof testDatabase>>;
let world: Installation;
let command: string;
let folder: ReturnType<typeof temporaryFolder>;
beforeAll(async () => {
  database = await testDatabase();
  world = await installation(await bundledPrograms(), { databaseUrl: database.url });
  await world.startControlPlane();
  command = join(await sharedService('bundle'), 'deploy/agent-trust.js');
  folder = temporaryFolder();
});
afterAll(async () => {
  await world?.close();
  await database?.drop();
  folder?.remove();
});

const isReady = async (origin: string) => (await call(`${origin}/readyz`).catch(() => null))?.status === 200;

/** The settings of `start`, on a database of its own, and where it then answers. */
async function allInOne(name: string, databaseUrl: string) {
  const port = await freePort();
  const env = {
    PATH: process.env['PATH'] ?? '',
    PORT: String(port),
    SIDECAR_PORT: String(await freePort()),
    DATA_DIR: join(folder.path, name),
    DATABASE_URL: databaseUrl,
    MASTER_KEY: Buffer.alloc(32, 7).toString('base64url'),
  };
  return { env, origin: `http://127.0.0.1:${port}`, sidecar: `http://127.0.0.1:${env.SIDECAR_PORT}` };
}

describe('SIGHUP', () => {
  it.each([
    ['a control plane', () => world.startControlPlane()],
    ['a sidecar of two threads', () => world.startSidecar({ SIDECAR_THREADS: '2' })],
  ])('stops %s in order', async (_what, start) => {
    const running = await start();
    expect(await running.stop('SIGHUP')).toBe(0);
    expect(running.program.output()).toContain('"signal":"SIGHUP"');
    expect(running.program.output()).toContain('"msg":"stopped"');
  });

  it('of a terminal that closes stops everything, although nothing can be printed any more', async () => {
    const own = await testDatabase({ isEmpty: true });
    const { env, sidecar } = await allInOne('terminal', own.url);
    const args = ['-c', terminalScript, process.execPath, command, 'start'];
    const terminal = spawn(await sharedService('python3'), args, { env, stdio: ['pipe', 'pipe', 'inherit'] });
    const printed = text(terminal.stdout);
    await until(() => isReady(sidecar), { what: 'everything is ready' });
    terminal.stdin.end();
    expect((await printed).trim()).toBe('exit code 0');
    await own.drop();
  });
});

/** Runs a command in a terminal of its own, which it closes with its standard input. */
const terminalScript = `
import os, pty, select, sys
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
while True:
    ready = select.select([0, terminal], [], [])[0]
    if 0 in ready: break
    os.read(terminal, 65536)
os.close(terminal)
status = os.waitpid(pid, 0)[1]
print('exit code', os.waitstatus_to_exitcode(status))
`;

describe('output without a reader', () => {
  const ended = (child: ChildProcess) =>
    new Promise<number | null>((resolve) => child.once('exit', (code) => resolve(code)));

  it('does not end a program whose reader is gone', async () => {
    const own = await testDatabase({ isEmpty: true });
    const { env, origin, sidecar } = await allInOne('pipe', own.url);
    const child = spawn(process.execPath, [command, 'start'], { env, stdio: ['ignore', 'pipe', 'pipe'] });
    const exited = ended(child);
    child.stdout.destroy();
    child.stderr.destroy();
    await until(() => isReady(sidecar), { what: 'the sidecar is ready' });
    expect(await isReady(origin)).toBe(true);
    child.kill('SIGTERM');
    expect(await exited).toBe(0);
    await own.drop();
  });

  it('does not end a program whose log is on a full disk', async () => {
    const own = await testDatabase({ isEmpty: true });
    const { env, sidecar } = await allInOne('full', own.url);
    const full = openSync('/dev/full', 'w');
    const child = spawn(process.execPath, [command, 'start'], { env, stdio: ['ignore', full, full] });
    const exited = ended(child);
    await until(() => isReady(sidecar), { what: 'the sidecar is ready' });
    child.kill('SIGTERM');
    expect(await exited).toBe(0);
    await own.drop();
  });
});
