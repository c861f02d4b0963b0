import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** Two runs of the tests at once install one after the other. */
const installLock = '/tmp/agent-trust-test-apt.lock';
const installMsMax = 180_000;

/**
 * The path of a redis-server (or valkey-server) on this machine. Where there is none and we are root, it is installed with apt-get,
 * without starting the service that comes with the package: each test starts a server of its own.
 */
export async function findRedisServer(): Promise<string> {
  const found = await which('redis-server', 'valkey-server');
  if (found !== null) return found;
  if (process.getuid?.() !== 0 || (await which('apt-get')) === null) {
    throw new Error(
      'These tests need Redis: install redis-server, or set REDIS_URL to a Redis 7 or Valkey to use.',
    );
  }
  await install();
  const installed = await which('redis-server');
  if (installed === null) throw new Error('apt-get installed redis-server, and yet it is not to be found.');
  return installed;
}

async function which(...names: readonly string[]): Promise<string | null> {
  for (const name of names) {
    const path = await run('/bin/sh', ['-c', 'command -v "$1"', 'sh', name]).catch(() => null);
    if (path !== null) return path.stdout.trim();
  }
  return null;
}

/** Debian starts a service as soon as its package is installed, unless a script named policy-rc.d forbids it with 101. */
const installScript = `
command -v redis-server && exit
if [ ! -e /usr/sbin/policy-rc.d ]; then
  trap 'rm -f /usr/sbin/policy-rc.d' EXIT
  printf '#!/bin/sh\\nexit 101\\n' > /usr/sbin/policy-rc.d
  chmod +x /usr/sbin/policy-rc.d
fi
apt-get update -q && apt-get install -q -y --no-install-recommends redis-server`;

async function install(): Promise<void> {
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  await run('flock', [installLock, '/bin/sh', '-c', installScript], { env, timeout: installMsMax }).catch(
    (error: unknown) => {
      throw new Error(
        'These tests need Redis, and apt-get could not install redis-server. Set REDIS_URL to use another.',
        {
          cause: error,
        },
      );
    },
  );
}
