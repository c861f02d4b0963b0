import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** A program that a test runs and that comes with a Debian package. */
interface DebianProgram {
  /** Any of these will do; the first is the one that the package brings. */
  readonly commands: readonly [string, ...string[]];
  readonly package: string;
  /** Modules of Python that have to be there besides; `package` then names the packages that bring them. */
  readonly modules?: readonly string[];
  /** A folder that has to be there besides; `package` then names the package that brings it. */
  readonly folder?: string;
  /** What whoever cannot install it may do instead. */
  readonly otherwise: string;
}

export const debianPrograms = {
  'redis-server': {
    commands: ['redis-server', 'valkey-server'],
    package: 'redis-server',
    otherwise: ', or set REDIS_URL to a Redis 7 or Valkey to use',
  },
  zsh: { commands: ['zsh'], package: 'zsh', otherwise: '' },
  python3: { commands: ['/usr/bin/python3'], package: 'python3', otherwise: '' },
  'python3 with FastAPI and Flask': {
    commands: ['/usr/bin/python3'],
    package: 'python3-fastapi python3-uvicorn python3-flask',
    modules: ['fastapi', 'uvicorn', 'flask'],
    otherwise: '',
  },
  chromium: {
    commands: ['chromium'],
    package: 'chromium',
    otherwise: ', or set CHROMIUM_PATH to a Chromium or Chrome to use',
  },
  promtool: { commands: ['promtool'], package: 'prometheus', otherwise: '' },
  kubectl: { commands: ['kubectl'], package: 'kubernetes-client', otherwise: '' },
  nginx: { commands: ['nginx'], package: 'nginx', otherwise: '' },
  caddy: { commands: ['caddy'], package: 'caddy', otherwise: '' },
  haproxy: { commands: ['haproxy'], package: 'haproxy', otherwise: '' },
  initdb: { commands: ['initdb'], package: 'postgresql', otherwise: '' },
  pgbouncer: { commands: ['pgbouncer'], package: 'pgbouncer', otherwise: '' },
  etcd: { commands: ['etcd'], package: 'etcd-server', otherwise: '' },
  patroni: { commands: ['patroni'], package: 'patroni', otherwise: '' },
  openssl: { commands: ['openssl'], package: 'openssl', otherwise: '' },
  curl: { commands: ['curl'], package: 'curl', otherwise: '' },
  buildah: { commands: ['buildah'], package: 'buildah', otherwise: '' },
  podman: { commands: ['podman'], package: 'podman runc', otherwise: '' },
  'systemd-analyze': { commands: ['systemd-analyze'], package: 'systemd', otherwise: '' },
  go: {
    commands: ['go'],
    package: 'golang-go golang-golang-x-mod-dev',
    folder: '/usr/share/gocode/src/golang.org/x/mod',
    otherwise: '',
  },
  wrk: { commands: ['wrk'], package: 'wrk', otherwise: '' },
} as const satisfies Readonly<Record<string, DebianProgram>>;

export type DebianProgramName = keyof typeof debianPrograms;

/** Two runs of the tests at once install one after the other. */
const installLock = '/tmp/agent-trust-test-apt.lock';
const installMsMax = 180_000;

/**
 * The path of the program on this machine. Where there is none and we are root, it is installed with apt-get,
 * without starting the service that may come with the package: each test starts what it needs. Throws with
 * one sentence that says what to install.
 */
export async function findDebianProgram(name: DebianProgramName): Promise<string> {
  const { commands, package: packageName, modules, folder, otherwise }: DebianProgram = debianPrograms[name];
  const found = async (): Promise<string | null> => {
    const path = await which(...commands);
    const isWhole = folder === undefined || existsSync(folder);
    return path === null || (isWhole && (await importsAll(path, modules ?? []))) ? path : null;
  };
  const before = await found();
  if (before !== null) return before;
  const sentence = `These tests need ${name}: install the Debian package ${packageName}${otherwise}.`;
  if (process.getuid?.() !== 0 || (await which('apt-get')) === null) throw new Error(sentence);
  const isAlone = modules === undefined && folder === undefined;
  await install(isAlone ? commands[0] : '', packageName).catch((cause: unknown) => {
    throw new Error(`${sentence} apt-get could not.`, { cause });
  });
  const installed = await found();
  if (installed === null) throw new Error(`apt-get installed ${packageName}, and yet there is no ${name}.`);
  return installed;
}

/** Servers lie in /usr/sbin, which is not on the PATH of everybody, and those of PostgreSQL on nobody's. */
async function which(...names: readonly string[]): Promise<string | null> {
  for (const name of names) {
    const find =
      'for bin in /usr/lib/postgresql/*/bin; do PATH="$PATH:$bin"; done; PATH="$PATH:/usr/sbin:/sbin"; command -v "$1"';
    const path = await run('/bin/sh', ['-c', find, 'sh', name]).catch(() => null);
    if (path !== null) return path.stdout.trim();
  }
  return null;
}

async function importsAll(python: string, modules: readonly string[]): Promise<boolean> {
  if (modules.length === 0) return true;
  const script = `import sys; assert sys.version_info >= (3, 11); import ${modules.join(', ')}`;
  const imported = await run(python, ['-c', script]).catch(() => null);
  return imported !== null;
}

/**
 * Debian starts a service as soon as its package is installed, unless a script named policy-rc.d forbids it
 * with 101.
 */
const installScript = `
[ -n "$1" ] && command -v "$1" && exit
if [ ! -e /usr/sbin/policy-rc.d ]; then
  trap 'rm -f /usr/sbin/policy-rc.d' EXIT
  printf '#!/bin/sh\\nexit 101\\n' > /usr/sbin/policy-rc.d
  chmod +x /usr/sbin/policy-rc.d
fi
apt-get update -q && apt-get install -q -y --no-install-recommends $2`;

async function install(command: string, packageName: string): Promise<void> {
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  const args = [installLock, '/bin/sh', '-c', installScript, 'sh', command, packageName];
  await run('flock', args, { env, timeout: installMsMax });
}
