import { execFile } from 'node:child_process';
import { copyFileSync, mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { must } from '../../shared/errors/assert.ts';
import { settings } from '../../shared/runtime/settings.ts';
import { freePort } from '../support/base/free-port.ts';
import { call } from '../support/base/http-client.ts';
import { readPage } from '../support/base/pages.ts';
import { temporaryFolder } from '../support/base/temporary-folder.ts';
import { until } from '../support/base/until.ts';
import { testDatabase } from '../support/database/postgres.ts';
import { bundledPrograms, type Program, programsIn } from '../support/programs/programs.ts';
import { sharedService } from '../support/run/shared-services.ts';

const run = promisify(execFile);
const deploy = fileURLToPath(new URL('../../deploy/', import.meta.url));
const read = (path: string): string => readFileSync(join(deploy, path), 'utf8');

interface Service {
  readonly image: string;
  readonly environment?: Readonly<Record<string, string>>;
  readonly entrypoint?: readonly string[];
  readonly volumes: readonly string[];
  readonly depends_on?: Readonly<Record<string, unknown>>;
  readonly read_only?: boolean;
  readonly cap_drop: readonly string[];
}
const compose: { services: Record<string, Service>; volumes: Record<string, null> } = parse(
  read('compose.yaml'),
  { merge: true },
);
const { services } = compose;

/** A secret is named by its file, and every other setting is one of the table. */
function expectSettings(names: readonly string[]): void {
  const table: Readonly<Record<string, { isSecret?: true }>> = settings;
  for (const name of names.filter((each) => !['NODE_ENV', 'PATH'].includes(each))) {
    const row = table[name.replace(/_FILE$/, '')];
    expect(row, name).toBeDefined();
    expect(name.endsWith('_FILE'), name).toBe(row?.isSecret === true);
  }
}

let folder: ReturnType<typeof temporaryFolder>;
beforeAll(() => {
  folder = temporaryFolder();
});
afterAll(() => folder.remove());

describe.each(['control-plane', 'sidecar'])('the systemd unit of the %s', (name) => {
  const unit = read(`systemd/agent-trust-${name}.service`);

  it('is sound, and exposed by less than 2 of 10', async () => {
    const analyze = await sharedService('systemd-analyze');
    const file = join(folder.path, `agent-trust-${name}.service`);
    // The command must be there.
    writeFileSync(file, unit.replace('/usr/bin/node', process.execPath));
    expect(await run(analyze, ['verify', file])).toEqual({ stdout: '', stderr: '' });
    const { stdout } = await run(analyze, ['security', '--offline=true', '--threshold=20', file]);
    expect(Number(/exposure level for \S+: ([\d.]+)/.exec(stdout)?.[1])).toBeLessThan(2);
  });

  it('gives its secrets as files, and names no setting that does not exist', () => {
    const given = [...unit.matchAll(/^Environment=(.*)$/gm)].flatMap(([, text = '']) => text.split(' '));
    expectSettings(given.map((each) => each.split('=')[0] ?? ''));
    expect(unit).toMatch(new RegExp(`^ExecStart=.*/dist/deploy/agent-trust.js ${name}$`, 'm'));
  });
});

describe('the commands of docs/operate/deploy.md for systemd', () => {
  const blocks = readPage('docs/operate/deploy.md').blocks.map(({ text }) => text);
  const block = (begin: string) =>
    must(
      blocks.find((text) => text.startsWith(begin)),
      `a block: ${begin}`,
    );

  it('install both programs, and lead to a sidecar that is ready', async () => {
    const at = (path: string) => join(folder.path, 'machine', path);
    for (const path of ['bin', 'etc', 'opt', 'units']) mkdirSync(at(path), { recursive: true });
    copyFileSync(await sharedService('package'), at('agent-trust-0.0.0.tgz'));
    symlinkSync(deploy, at('deploy'));
    writeFileSync(at('bin/systemctl'), `#!/bin/sh\necho "$@" >> ${at('told')}\n`, { mode: 0o755 });
    const [port, sidecarPort] = [await freePort(), await freePort()];
    const paste = (text: string) =>
      run('bash', ['-e', '-o', 'pipefail', '-c', inPlace(text)], {
        cwd: at(''),
        env: { ...process.env, PATH: `${at('bin')}:${process.env['PATH']}`, npm_config_offline: 'true' },
      });
    const inPlace = (text: string) =>
      text
        .replaceAll('/opt/agent-trust', at('opt'))
        .replaceAll('/etc/agent-trust', at('etc'))
        .replaceAll('/etc/systemd/system/', at('units/'))
        .replaceAll('%d', at('etc'))
        .replaceAll('127.0.0.1:8080', `127.0.0.1:${port}`)
        .replaceAll(/\/var\/lib\/agent-trust-[a-z-]+/g, (path) => at(path.slice(9)));
    /** As systemd would, from the unit that was installed. */
    const start = (name: string, more: Readonly<Record<string, string>>): Program => {
      const unit = inPlace(readFileSync(at(`units/agent-trust-${name}.service`), 'utf8'));
      const [, script = ''] = /^ExecStart=\S+ (\S+) /m.exec(unit) ?? [];
      const given = [...unit.matchAll(/^Environment=(.*)$/gm)].flatMap(([, text = '']) => text.split(' '));
      const env = Object.fromEntries(given.map((each) => each.split('=')));
      return programsIn(dirname(script)).start([name], { ...env, ...more }, basename(script));
    };
    const started: Program[] = [];
    try {
      await paste(block('npm install --prefix'));
      writeFileSync(at('etc/database-url'), (await testDatabase()).url);
      started.push(start('control-plane', { PORT: String(port) }));
      await until(() => isReady(`http://127.0.0.1:${port}`), {
        what: 'the control plane',
        timeoutMs: 60_000,
      });
      await paste(block('umask 077\ncurl'));
      const [name = '', value = ''] = readFileSync(at('etc/sidecar.env'), 'utf8').trim().split('=');
      started.push(start('sidecar', { [name]: value, SIDECAR_PORT: String(sidecarPort) }));
      await until(() => isReady(`http://127.0.0.1:${sidecarPort}`), {
        what: 'the sidecar',
        timeoutMs: 60_000,
      });
      expect(readFileSync(at('told'), 'utf8').trim().split('\n')).toEqual([
        'daemon-reload',
        'enable --now agent-trust-control-plane',
        'enable --now agent-trust-sidecar',
      ]);
      for (const file of ['master-key', 'admin-api-key', 'sidecar-api-key'])
        expect(statSync(at(`etc/${file}`)).mode & 0o077, file).toBe(0);
    } finally {
      for (const program of started) await program.stop('SIGKILL');
    }
  }, 180_000);
});

const isReady = async (origin: string): Promise<boolean> =>
  (await call(`${origin}/readyz`).catch(() => null))?.status === 200;

describe('the image', () => {
  it('is the same by the Dockerfile and by the script', () => {
    const [dockerfile, script] = [read('Dockerfile'), read('image/build')];
    const env = /^ENV (.*)$/m.exec(dockerfile)?.[1]?.split(' ') ?? [];
    expect(env.length).toBeGreaterThan(3);
    for (const each of env) expect(script).toContain(`--env ${each}`);
    expectSettings(env.map((each) => each.split('=')[0] ?? ''));
    for (const shared of [
      '"node", "/app/dist/deploy/agent-trust.js"',
      '1000:1000',
      'SIGTERM',
      '10s',
      '_127.node',
    ])
      for (const file of [dockerfile, script]) expect(file).toContain(shared);
  });
});

describe('compose.yaml', () => {
  it('names only volumes, services and settings that exist, and gives nothing more than it needs', () => {
    for (const [name, service] of Object.entries(services)) {
      for (const volume of service.volumes)
        expect(compose.volumes, name).toHaveProperty(volume.split(':')[0] ?? '');
      for (const other of Object.keys(service.depends_on ?? {})) expect(services).toHaveProperty(other);
      expect(service.cap_drop).toEqual(['ALL']);
      if (name === 'postgres') continue;
      expect(service.read_only, name).toBe(true);
      expectSettings(Object.keys(service.environment ?? {}));
    }
  });

  it('makes its secrets once, and leads to a PERMIT', async () => {
    const programs = await bundledPrograms();
    const started: Program[] = [];
    const place = (text: string) => text.replace('/secrets', folder.path);
    const environmentOf = (name: string) =>
      Object.fromEntries(
        Object.entries(services[name]?.environment ?? {}).map(([key, value]) => [key, place(value)]),
      );
    /** What such a service does, in our folder in the place of its volume. */
    const once = (name: string, env: Readonly<Record<string, string>> = {}) =>
      run(process.execPath, services[name]?.entrypoint?.slice(1) ?? [], {
        env: { DATA_DIR: folder.path, ...env },
      });
    const secret = (name: string) => readFileSync(join(folder.path, name), 'utf8');
    try {
      await once('secrets');
      const made = ['master-key', 'admin-api-key', 'postgres-password', 'database-url'].map(secret);
      expect(made[3]).toBe(`postgres://agent_trust:${made[2]}@postgres:5432/agent_trust`);
      await once('secrets');
      expect(['master-key', 'admin-api-key', 'postgres-password', 'database-url'].map(secret)).toEqual(made);

      const [port, sidecarPort] = [await freePort(), await freePort()];
      const databaseUrl = join(folder.path, 'database-url-of-the-test');
      writeFileSync(databaseUrl, (await testDatabase()).url);
      const origin = `http://127.0.0.1:${port}`;
      started.push(
        programs.start(['control-plane'], {
          ...environmentOf('control-plane'),
          ...{ PORT: String(port), DATABASE_URL_FILE: databaseUrl, PUBLIC_URL: origin, GATE_HOST: origin },
          DATA_DIR: join(folder.path, 'control-plane'),
        }),
      );
      await until(() => isReady(origin), { what: 'the control plane', timeoutMs: 60_000 });

      await once('sidecar-key', { CONTROL_PLANE_URL: origin });
      const sidecarKey = secret('sidecar-api-key');
      await once('sidecar-key', { CONTROL_PLANE_URL: origin });
      expect(secret('sidecar-api-key')).toBe(sidecarKey);

      const sidecar = `http://127.0.0.1:${sidecarPort}`;
      started.push(
        programs.start(['sidecar'], {
          ...environmentOf('sidecar'),
          ...{ SIDECAR_PORT: String(sidecarPort), CONTROL_PLANE_URL: origin },
          DATA_DIR: join(folder.path, 'sidecar'),
        }),
      );
      await until(() => isReady(sidecar), { what: 'the sidecar', timeoutMs: 60_000 });
      const key = secret('admin-api-key');
      const api = async (path: string, body: unknown) =>
        (await call(`${origin}/v1${path}`, { key, body })).body;
      const { gate_id } = await api('/gates', { name: 'g', trust_level: 'L1' });
      const { jwt } = await api('/passports', { agent_id: 'a', permissions: ['orders:create'] });
      const check = { passport: jwt, request: { permission_key: 'orders:create' } };
      const decision = async () =>
        (await call(`${sidecar}/v1/gates/${gate_id}/check`, { key, body: check })).body?.decision;
      await until(async () => (await decision()) === 'PERMIT', { what: 'a PERMIT' });
    } finally {
      for (const program of started) await program.stop('SIGKILL');
    }
  }, 180_000);
});
