import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freePort } from '../support/base/free-port.ts';
import { call } from '../support/base/http-client.ts';
import { isLong } from '../support/base/runs.ts';
import { temporaryFolder } from '../support/base/temporary-folder.ts';
import { until } from '../support/base/until.ts';
import { testDebianPostgres } from '../support/run/debian-postgres.ts';
import { sharedService } from '../support/run/shared-services.ts';

const run = promisify(execFile);
const imageBytesMax = 180_000_000;

/** As docs/operate/deploy.md runs it, on the network of this machine. */
const confined = ['--read-only', '--cap-drop', 'ALL', '--security-opt', 'no-new-privileges'];

let folder: ReturnType<typeof temporaryFolder>;
let store: readonly string[];
/** Over TCP, which reaches into the container. */
let database: Awaited<ReturnType<typeof testDebianPostgres>>;
const names: string[] = [];
const podman = async (...args: readonly string[]): Promise<string> =>
  (await run('podman', ['--runtime', 'runc', ...store, ...args])).stdout.trim();

/** Without Podman's own timer for the health check, which needs systemd. */
const start = (name: string, env: Readonly<Record<string, string>>, ...command: readonly string[]) => {
  names.push(name);
  const settings = Object.entries(env).flatMap(([key, value]) => ['--env', `${key}=${value}`]);
  const here = [
    '--network',
    'host',
    '--no-healthcheck',
    '--ulimit',
    'nofile=4096:4096',
    '--ulimit',
    'nproc=512:512',
  ];
  return podman(
    'run',
    '--detach',
    '--name',
    name,
    ...confined,
    ...here,
    ...settings,
    'agent-trust:tried',
    ...command,
  );
};

/** Builds an image, which takes minutes and needs namespaces of the kernel: with LONG alone. */
describe.skipIf(!isLong)('the image', () => {
  beforeAll(async () => {
    folder = temporaryFolder();
    for (const name of ['store', 'run']) mkdirSync(join(folder.path, name));
    store = [
      '--storage-driver',
      'vfs',
      '--root',
      join(folder.path, 'store'),
      '--runroot',
      join(folder.path, 'run'),
    ];
    for (const program of ['buildah', 'podman'] as const) await sharedService(program);
    database = await testDebianPostgres({ programs: dirname(await sharedService('initdb')) });
    const script = fileURLToPath(new URL('../../deploy/image/build', import.meta.url));
    await run(script, ['agent-trust:tried'], {
      env: {
        ...process.env,
        ...{ PACKED: await sharedService('package'), SBOM: join(folder.path, 'sbom.json') },
        BUILDAH_ARGS: store.join(' '),
      },
    });
  }, 600_000);
  afterAll(async () => {
    for (const name of names) await podman('rm', '--force', '--volumes', name).catch(() => null);
    await podman('rmi', '--all', '--force').catch(() => null);
    await database?.stop();
    folder?.remove();
  });

  it('is small, and lists what is in it', async () => {
    expect(
      Number(await podman('image', 'inspect', 'agent-trust:tried', '--format', '{{.Size}}')),
    ).toBeLessThan(imageBytesMax);
    const bill = JSON.parse(readFileSync(join(folder.path, 'sbom.json'), 'utf8'));
    for (const name of ['node', 'libc6', 'fastify', 'postgres'])
      expect(bill.components).toContainEqual(
        expect.objectContaining({ name, version: expect.stringMatching(/^\d/) }),
      );
  });

  it('decides as user 1000 on a read-only root without capabilities, and its health check says so', async () => {
    const id = randomBytes(4).toString('hex');
    const [port, sidecarPort] = [await freePort(), await freePort()];
    const [origin, sidecar] = [`http://127.0.0.1:${port}`, `http://127.0.0.1:${sidecarPort}`];
    const key = `at_live_${randomBytes(24).toString('hex')}`;
    const isReady = async (url: string) => (await call(`${url}/readyz`).catch(() => null))?.status === 200;
    await start(
      `control-plane-${id}`,
      {
        ...{ DATABASE_URL: database.url, ADMIN_API_KEY: key, PORT: String(port), HOST: '127.0.0.1' },
        MASTER_KEY: randomBytes(32).toString('base64url'),
      },
      'control-plane',
    );
    await until(() => isReady(origin), { what: 'the control plane', timeoutMs: 60_000 });
    const api = async (path: string, body: unknown) =>
      (await call(`${origin}/v1${path}`, { key, body })).body;
    const made = await api('/api-keys', { name: 'sidecars', scopes: ['sidecars:connect'] });
    const name = `sidecar-${id}`;
    await start(
      name,
      {
        ...{ CONTROL_PLANE_URL: origin, SIDECAR_API_KEY: made.key },
        ...{ SIDECAR_PORT: String(sidecarPort), SIDECAR_HOST: '127.0.0.1' },
      },
      'sidecar',
    );
    await until(() => isReady(sidecar), { what: 'the sidecar', timeoutMs: 60_000 });
    const { gate_id } = await api('/gates', { name: 'g', trust_level: 'L1' });
    const { jwt } = await api('/passports', { agent_id: 'a', permissions: ['orders:create'] });
    const body = { passport: jwt, request: { permission_key: 'orders:create' } };
    const decision = async () =>
      (await call(`${sidecar}/v1/gates/${gate_id}/check`, { key, body })).body?.decision;
    await until(async () => (await decision()) === 'PERMIT', { what: 'a PERMIT' });

    const status = readFileSync(
      `/proc/${await podman('inspect', name, '--format', '{{.State.Pid}}')}/status`,
      'utf8',
    );
    expect(status).toMatch(/^Uid:\t1000\t1000\t1000\t1000$/m);
    expect(status).toMatch(/^CapBnd:\t0+$/m);
    const test = JSON.parse(
      await podman('image', 'inspect', 'agent-trust:tried', '--format', '{{json .HealthCheck.Test}}'),
    );
    expect(await podman('exec', name, ...test.slice(1), 'sidecar')).toBe('sidecar: ready');
    const write = "require('fs').writeFileSync('/app/x', '')";
    await expect(podman('exec', name, 'node', '--eval', write)).rejects.toThrow(/EROFS/);
  }, 300_000);
});
