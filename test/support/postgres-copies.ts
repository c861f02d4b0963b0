import { chmodSync, chownSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { startGuarded } from '../../control-plane/storage/guarded-process.ts';
import { postgresUser } from '../../control-plane/storage/postgres-user.ts';
import { until } from './until.ts';

const env = { PATH: '/usr/bin:/bin' };

/** A folder that PostgreSQL may write to. */
export async function folderOfPostgres(path: string): Promise<string> {
  const user = await postgresUser();
  mkdirSync(path, { mode: 0o700 });
  if (user !== null) chownSync(path, user.uid, user.gid);
  return path;
}

/** The data of a running server, as pg_basebackup copies them. `args`: beside those for the place. */
export async function baseBackup(
  url: string,
  to: { readonly programs: string; readonly cluster: string; readonly args?: readonly string[] },
): Promise<void> {
  await folderOfPostgres(to.cluster);
  const made = startGuarded({
    command: join(to.programs, 'pg_basebackup'),
    args: ['--no-sync', '--checkpoint=fast', '-D', to.cluster, '-d', url, ...(to.args ?? [])],
    env,
    user: await postgresUser(),
  });
  if ((await made.exited) !== 0) throw new Error(`pg_basebackup failed:\n${made.lastLines()}`);
  chmodSync(to.cluster, 0o700);
}

/** Lines at the end of a cluster's own configuration, and files in its folder. */
export async function configure(
  cluster: string,
  { lines, files = [] }: { readonly lines: readonly string[]; readonly files?: readonly string[] },
): Promise<void> {
  const user = await postgresUser();
  const path = join(cluster, 'postgresql.auto.conf');
  writeFileSync(path, `${readFileSync(path, 'utf8')}${lines.join('\n')}\n`);
  for (const name of files) {
    writeFileSync(join(cluster, name), '');
    if (user !== null) chownSync(join(cluster, name), user.uid, user.gid);
  }
}

export interface StartedCopy {
  stop(): Promise<void>;
}

/** Starts a server on data that are there. Resolves once it takes connections. */
export async function startCopy({
  programs,
  cluster,
  port,
  parameters = {},
}: {
  readonly programs: string;
  readonly cluster: string;
  readonly port: number;
  readonly parameters?: Readonly<Record<string, string>>;
}): Promise<StartedCopy> {
  const all = { port: String(port), unix_socket_directories: cluster, fsync: 'off', ...parameters };
  const server = startGuarded({
    command: join(programs, 'postgres'),
    args: ['-D', cluster, ...Object.entries(all).flatMap(([name, value]) => ['-c', `${name}=${value}`])],
    env,
    user: await postgresUser(),
  });
  const pidFile = join(cluster, 'postmaster.pid');
  // As a standby it is `standby` and not `ready`.
  const state = () =>
    existsSync(pidFile) ? readFileSync(pidFile, 'utf8').split('\n')[7]?.trim() : undefined;
  await until(() => !server.isRunning || ['ready', 'standby'].includes(state() ?? ''), {
    what: `a server on ${cluster}`,
  });
  if (!server.isRunning) throw new Error(`PostgreSQL did not start:\n${server.lastLines()}`);
  return { stop: () => server.stop({ timeoutMs: 20_000 }) };
}
