import { randomBytes } from 'node:crypto';
import {
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { connect } from '../../control-plane/storage/connect.ts';
import { type GuardedProcess, startGuarded } from '../../control-plane/storage/guarded-process.ts';
import { postgresUser, type SystemUser } from '../../control-plane/storage/postgres-user.ts';

/** PostgreSQL as Debian packages it, over TCP with a password: what most users run. */
export interface DebianPostgres {
  /** Of the superuser `postgres`, with the database `postgres`. */
  readonly url: string;
  /** Of the process that all others come from. */
  readonly pid: number;
  /** Ends all sessions and the server in order; the data stay. */
  stopServer(): Promise<void>;
  /** At the same address. */
  startServer(): Promise<void>;
  /** The same as `stopServer`; its folder is the caller's. */
  stop(): Promise<void>;
}

export interface DebianPostgresOptions {
  /** Of the package: the folder with `initdb` and `postgres`. */
  readonly programs: string;
  /** Empty, and open to be entered by every user. */
  readonly folder: string;
  readonly port: number;
  /** Arguments of initdb beside those for names and passwords. Default: as `pg_createcluster` without any. */
  readonly initdb?: readonly string[];
  /** Beside Debian's own configuration. */
  readonly configuration?: Readonly<Record<string, string>>;
  readonly environment?: Readonly<Record<string, string>>;
  /** Lines before those of Debian in pg_hba.conf. */
  readonly hostRules?: readonly string[];
  /** A standby that follows the server of this URL, of a superuser. Default: a cluster of its own. */
  readonly follows?: string;
  /** Puts further files into the folder of the cluster before the server starts. */
  readonly files?: Readonly<Record<string, string>>;
}

/** A machine that others use too takes many times as long as a quiet one. */
const startMsMax = 120_000;
const stopMsMax = 20_000;

/** The folder with the programs of the newest version that Debian's packages have installed; null: none. */
export function findDebianPostgres(): string | null {
  const root = '/usr/lib/postgresql';
  if (!existsSync(root)) return null;
  const versions = readdirSync(root).sort((a, b) => Number(b) - Number(a));
  const folders = versions.map((version) => join(root, version, 'bin'));
  return folders.find((folder) => existsSync(join(folder, 'postgres'))) ?? null;
}

/** Makes a cluster and starts it. Like the embedded one, it ends when this process ends. */
export async function startDebianPostgres(options: DebianPostgresOptions): Promise<DebianPostgres> {
  const user = await postgresUser();
  const cluster = join(options.folder, 'cluster');
  const password = randomBytes(12).toString('hex');
  const { follows } = options;
  if (follows === undefined) await makeCluster(options, { user, cluster, password });
  else await copyCluster({ ...options, follows }, { user, cluster });
  let server = await startServer(options, { user, cluster });
  const stop = () => server.stop({ timeoutMs: stopMsMax });
  return {
    url:
      follows === undefined
        ? `postgres://postgres:${password}@127.0.0.1:${options.port}/postgres`
        : Object.assign(new URL(follows), { port: String(options.port) }).href,
    get pid() {
      return Number(postmasterLines(cluster)[0]);
    },
    stopServer: stop,
    startServer: async () => {
      server = await startServer(options, { user, cluster });
    },
    stop,
  };
}

/** A role without rights of its own beside its database, as `docs/database.md` makes it. */
export async function makeOwnedDatabase(url: string, name = 'agent_trust'): Promise<string> {
  const password = randomBytes(12).toString('hex');
  const sql = connect({ url, connectionsMax: 1 });
  try {
    await sql.unsafe(`CREATE ROLE ${name} LOGIN PASSWORD '${password}'`);
    await sql.unsafe(`CREATE DATABASE ${name} OWNER ${name}`);
  } finally {
    await sql.end();
  }
  const owned = new URL(url);
  owned.username = name;
  owned.password = password;
  owned.pathname = `/${name}`;
  return owned.href;
}

interface Cluster {
  readonly user: SystemUser | null;
  readonly cluster: string;
}

async function makeCluster(
  { programs, folder, initdb = [], environment = {}, hostRules = [], files = {} }: DebianPostgresOptions,
  { user, cluster, password }: Cluster & { readonly password: string },
): Promise<void> {
  const passwordFile = join(folder, 'password');
  mkdirSync(cluster, { mode: 0o700 });
  writeFileSync(passwordFile, password, { mode: 0o600 });
  if (user !== null) for (const path of [cluster, passwordFile]) chownSync(path, user.uid, user.gid);
  const made = startGuarded({
    command: join(programs, 'initdb'),
    args: [
      ...['-D', cluster, '--username=postgres', `--pwfile=${passwordFile}`, '--encoding=UTF8', '--no-sync'],
      ...['--auth-local=peer', '--auth-host=scram-sha-256', ...initdb],
    ],
    env: { PATH: '/usr/bin:/bin', ...environment },
    user,
  });
  if ((await made.exited) !== 0) throw new Error(`initdb failed on ${cluster}:\n${made.lastLines()}`);
  const own = { mode: 0o600 };
  for (const [name, text] of Object.entries(files)) {
    writeFileSync(join(cluster, name), text, own);
    if (user !== null) chownSync(join(cluster, name), user.uid, user.gid);
  }
  const rules = ['local all all trust', ...hostRules, 'host all all all scram-sha-256'];
  writeFileSync(join(cluster, 'pg_hba.conf'), `${rules.join('\n')}\n`);
}

async function copyCluster(
  { programs, follows }: DebianPostgresOptions & { readonly follows: string },
  { user, cluster }: Cluster,
): Promise<void> {
  mkdirSync(cluster, { mode: 0o700 });
  if (user !== null) chownSync(cluster, user.uid, user.gid);
  const made = startGuarded({
    // Programs of the server may be links elsewhere, without those of the client.
    command: join(dirname(realpathSync(join(programs, 'initdb'))), 'pg_basebackup'),
    args: ['-D', cluster, '-d', follows, '-R', '--checkpoint=fast', '--no-sync'],
    env: { PATH: '/usr/bin:/bin' },
    user,
  });
  if ((await made.exited) !== 0) throw new Error(`pg_basebackup failed on ${cluster}:\n${made.lastLines()}`);
}

async function startServer(
  { programs, folder, port, configuration = {}, environment = {} }: DebianPostgresOptions,
  { user, cluster }: Cluster,
): Promise<GuardedProcess> {
  const parameters = { unix_socket_directories: cluster, ...configuration };
  const server = startGuarded({
    command: join(programs, 'postgres'),
    args: [
      ...['-D', cluster, '-p', String(port)],
      ...Object.entries(parameters).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
    ],
    env: { PATH: '/usr/bin:/bin', ...environment },
    user,
  });
  const deadline = performance.now() + startMsMax;
  while (postmasterLines(cluster)[7]?.trim() !== 'ready') {
    if (server.isRunning && performance.now() < deadline) {
      await pause(20);
      continue;
    }
    await server.stop({ timeoutMs: stopMsMax });
    throw new Error(`PostgreSQL did not start in ${folder}:\n${server.lastLines()}`);
  }
  return server;
}

/** The lines of postmaster.pid: the first is its process, the eighth says how far it is. */
function postmasterLines(cluster: string): readonly string[] {
  const path = join(cluster, 'postmaster.pid');
  return existsSync(path) ? readFileSync(path, 'utf8').split('\n') : [];
}
