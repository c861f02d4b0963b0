import { basename, dirname } from 'node:path';
import { connect } from '../../control-plane/storage/connect.ts';
import { findDebianPostgres, makeOwnedDatabase, startDebianPostgres } from './debian-postgres.ts';
import { freePort, leaveCoreToOthers, pinTree } from './programs.ts';

/**
 * Which PostgreSQL is measured: the one of Debian's package over TCP, with its default settings, as most
 * users run it; or the embedded one over a Unix socket.
 */
export type DatabaseKind = 'debian' | 'embedded';

/** `words`: of the command line. */
export const databaseOf = (words: readonly string[]): DatabaseKind =>
  words.includes('--embedded') ? 'embedded' : 'debian';

/** Why this machine has no PostgreSQL of Debian's; null: there is. */
export const lackOfDebian = (): string | null =>
  findDebianPostgres() === null ? 'PostgreSQL is not installed (Debian: apt-get install postgresql).' : null;

/** Why a row cannot have it; null: it can. */
export function lackOf(kind: DatabaseKind): string | null {
  const reason = kind === 'debian' && copied === null ? lackOfDebian() : null;
  return reason === null ? null : `${reason} --embedded takes the embedded one.`;
}

/** For the notes of a table. */
export function describeDatabase(kind: DatabaseKind): string {
  if (copied !== null) return 'A copy of a database that was there.';
  if (kind === 'embedded') return 'The embedded PostgreSQL, over a Unix socket.';
  const version = basename(dirname(findDebianPostgres() ?? ''));
  return `PostgreSQL ${version} from Debian's package, over TCP, with its default settings.`;
}

/** Of databases that are copied; null: each row starts a server of its own. */
let copied: URL | null = null;
const copies = new Set<string>();
let made = 0;

/**
 * From now on every database is a copy of this one, made by its server as a superuser: a brief run starts
 * dozens of them. It must have no sessions. A copy without any goes when the next one is made; the last ones
 * go with that server.
 */
export function copyDatabases(url: string): void {
  copied = new URL(url);
}

/** What a control plane is given where databases are copied; null: they are not. */
export async function copiedDatabase(): Promise<string | null> {
  if (copied === null) return null;
  const template = copied.pathname.slice(1);
  const name = `bench_${process.pid}_${++made}`;
  const sql = connect({ url: at(copied, 'template1'), connectionsMax: 1 });
  try {
    for (const earlier of copies)
      await sql.unsafe(`DROP DATABASE IF EXISTS ${earlier}`).catch(() => undefined);
    copies.add(name);
    await sql.unsafe(`CREATE DATABASE ${name} TEMPLATE ${template} STRATEGY file_copy`);
  } finally {
    await sql.end();
  }
  return at(copied, name);
}

const at = (url: URL, database: string): string =>
  Object.assign(new URL(url), { pathname: `/${database}` }).href;

/** A server of its own, with a database that belongs to a role without rights elsewhere. */
export interface DebianDatabase {
  /** Of that role. */
  readonly url: string;
  /** Of the process that all others come from; another one after each start. */
  readonly pid: number;
  stop(): Promise<void>;
  /** Again, over the same data. */
  start(): Promise<void>;
}

export async function startDebianDatabase(options: {
  /** Open to be entered by every user: PostgreSQL runs as one of its own when this is run by root. */
  readonly folder: string;
  /** As taskset(1) takes them. Default: those of this process. */
  readonly cores?: string;
  /** It leaves its core to whatever else wants to run there. Default false. */
  readonly isNice?: boolean;
}): Promise<DebianDatabase> {
  const { folder, cores, isNice = false } = options;
  const programs = findDebianPostgres();
  if (programs === null) throw new Error(lackOfDebian() ?? '');
  const server = await startDebianPostgres({ programs, folder, port: await freePort() });
  let end: () => void = () => undefined;
  const place = () => {
    const ended = new Promise<void>((resolve) => {
      end = resolve;
    });
    if (cores !== undefined) pinTree(server.pid, cores);
    if (isNice) leaveCoreToOthers({ pid: server.pid, ended });
  };
  const stop = async () => {
    end();
    await server.stop();
  };
  try {
    const url = await makeOwnedDatabase(server.url);
    place();
    return {
      url,
      get pid() {
        return server.pid;
      },
      stop,
      start: async () => {
        await server.startServer();
        place();
      },
    };
  } catch (error) {
    await stop();
    throw error;
  }
}
