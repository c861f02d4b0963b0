import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { startGuarded } from '../../../control-plane/storage/guarded-process.ts';
import { assert, must } from '../../../shared/errors/assert.ts';
import { freePort } from '../base/free-port.ts';
import { temporaryFolder } from '../base/temporary-folder.ts';
import { until } from '../base/until.ts';
import { sharedService } from '../run/shared-services.ts';

export const proxyNames = ['nginx', 'caddy', 'haproxy'] as const;
export type ProxyName = (typeof proxyNames)[number];

/** A proxy of its Debian package, run with the files of `deploy/proxies` and with what they leave open. */
export interface RunningProxy {
  readonly name: ProxyName;
  readonly version: string;
  readonly port: number;
  stop(): Promise<void>;
}

export interface ProxyPlaces {
  readonly gateId: string;
  readonly sidecarPort: number;
  readonly servicePort: number;
  /** Sets the line that is left out by comments: the permission that each request needs. */
  readonly permission?: string;
}

interface Recipe {
  /** Below `deploy/proxies`; the first one is what the proxy is started with. */
  readonly files: readonly [string, ...string[]];
  /** Of these files: the line with the permission, and the same in force. */
  readonly permission: readonly [comment: RegExp, line: string];
  /** What the package decides and a test must not share with the machine. */
  readonly ownPlaces: (text: string, folder: string) => string;
  readonly run: (file: string, folder: string) => readonly string[];
  readonly version: { readonly args: readonly string[]; readonly pattern: RegExp };
}

const recipes: Readonly<Record<ProxyName, Recipe>> = {
  nginx: {
    files: ['nginx.conf'],
    permission: [/# (proxy_set_header X-Gate-Permission) orders:create;/, '$1 PERMISSION;'],
    ownPlaces: (text, folder) => {
      const paths = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'];
      const lines = paths.map((path) => `${path}_temp_path ${join(folder, path)};`);
      return text.replace('http {', `http { access_log off; ${lines.join(' ')}`);
    },
    run: (file, folder) => {
      const main = `daemon off; pid ${join(folder, 'nginx.pid')}; user ${userInfo().username};`;
      return ['-p', folder, '-c', file, '-e', 'stderr', '-g', main];
    },
    version: { args: ['-v'], pattern: /nginx\/([\d.]+)/ },
  },
  caddy: {
    files: ['Caddyfile'],
    permission: [/# (header_up X-Gate-Permission) orders:create/, '$1 PERMISSION'],
    ownPlaces: (text) => text,
    run: (file) => ['run', '--adapter', 'caddyfile', '--config', file],
    version: { args: ['version'], pattern: /v?([\d.]+)/ },
  },
  haproxy: {
    files: ['haproxy.cfg', 'agent-trust.lua'],
    permission: [/-- (\["x-gate-permission"\] = \{) "orders:create" \}/, '$1 "PERMISSION" }'],
    // Abstract sockets belong to the whole machine.
    ownPlaces: (text, folder) => text.replace(/abns@agent-trust\b/, `abns@${folder.split('/').at(-1)}`),
    run: (file, folder) => ['-db', '-C', folder, '-f', file],
    version: { args: ['-v'], pattern: /version ([\d.]+)/ },
  },
};

const stopMsMax = 10_000;

/** Resolves when it listens; throws with what it wrote where it ends before. It ends with this process. */
export async function startProxy(name: ProxyName, places: ProxyPlaces): Promise<RunningProxy> {
  const command = await sharedService(name);
  const recipe = recipes[name];
  const folder = temporaryFolder();
  const port = await freePort();
  for (const file of recipe.files) {
    const text = filledIn(file, { ...places, port }, recipe);
    writeFileSync(join(folder.path, file), recipe.ownPlaces(text, folder.path));
  }
  mkdirSync(join(folder.path, 'home'));
  const process = startGuarded({
    command,
    args: recipe.run(join(folder.path, recipe.files[0]), folder.path),
    env: { PATH: '/usr/sbin:/usr/bin:/bin', HOME: join(folder.path, 'home') },
    user: null,
  });
  const stop = async (): Promise<void> => {
    await process.stop({ timeoutMs: stopMsMax });
    folder.remove();
  };
  try {
    await until(async () => !process.isRunning || (await isListening(port)), { what: `${name} on ${port}` });
    if (!process.isRunning) throw new Error(`${name} ended:\n${process.lastLines()}`);
  } catch (error) {
    await stop();
    throw error;
  }
  return { name, version: versionOf(command, recipe.version), port, stop };
}

/** What whoever runs it puts into the files by hand: everything that they leave open, and nothing else. */
function filledIn(file: string, places: ProxyPlaces & { readonly port: number }, recipe: Recipe): string {
  const url = new URL(`../../../deploy/proxies/${file}`, import.meta.url);
  let text = readFileSync(url, 'utf8');
  const values = {
    gate_REPLACE_ME: places.gateId,
    ':8000': `:${places.port}`,
    ':8090': `:${places.sidecarPort}`,
    ':3000': `:${places.servicePort}`,
  };
  for (const [open, value] of Object.entries(values)) {
    assert(file !== recipe.files[0] || text.includes(open), `${file} leaves ${open} open`);
    text = text.replaceAll(open, value);
  }
  const [comment, line] = recipe.permission;
  return places.permission === undefined
    ? text
    : text.replace(comment, line.replace('PERMISSION', places.permission));
}

function isListening(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('connect', () => resolve(true));
    socket.once('error', () => resolve(false));
    socket.once('connect', () => socket.destroy());
  });
}

function versionOf(command: string, { args, pattern }: Recipe['version']): string {
  // nginx writes it to standard error.
  const text = execFileSync('/bin/sh', ['-c', '"$@" 2>&1', 'sh', command, ...args], { encoding: 'utf8' });
  return must(pattern.exec(text)?.[1], `a version in: ${text}`);
}
