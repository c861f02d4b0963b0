import { execFile } from 'node:child_process';
import { chmod, chown, lstat, mkdir, mkdtemp, readdir, realpath, rm, stat, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { makeFolder } from '../../shared/runtime/make-folder.ts';
import { StartError } from '../../shared/runtime/start-error.ts';
import type { GuardedCommand } from './guarded-process.ts';
import {
  copyBinaries,
  findPostgresBinaries,
  linkLibraries,
  type PostgresBinaries,
} from './postgres-binaries.ts';
import { firstClosedFolder, postgresUser, type SystemUser } from './postgres-user.ts';

/** Where an embedded server lives and as whom it runs. */
export interface EmbeddedPlace {
  /** PostgreSQL's data directory, a real path. It need not exist yet. */
  readonly cluster: string;
  /** The folder of the programs. */
  readonly programs: string;
  readonly run: Pick<GuardedCommand, 'env' | 'user'>;
  /** See EmbeddedPostgres. */
  readonly relocation: string | null;
}

/** What the unprivileged user cannot reach elsewhere is kept here (contract §1). */
const sharedHome = '/var/lib/agent-trust';

/**
 * Finds the binaries and makes `<dataDir>/postgres`, owned by the user as whom PostgreSQL will run. Where we
 * are root and that user cannot reach one of them, the binaries are copied to /var/lib/agent-trust, and
 * `<dataDir>/postgres` becomes a link to a folder there: the data directory still says which database is its
 * own.
 */
export async function prepareEmbeddedPlace(dataDir: string): Promise<EmbeddedPlace> {
  await makeFolder(dataDir);
  const user = await postgresUser();
  const closedFolder = user === null ? null : await openDataDir(user, await realpath(dataDir));
  const home = await makeHome(join(dataDir, 'postgres'), user, closedFolder);
  const found = await linkLibraries(await findPostgresBinaries(), join(home, 'lib'));
  const isRunnable = await canRun(found, user);
  const binaries = isRunnable ? found : await useCopy(found, user);
  const isMoved = home.startsWith(`${sharedHome}/`) || !isRunnable;
  return {
    cluster: join(home, 'data'),
    programs: join(binaries.directory, 'bin'),
    run: { env: environment(binaries), user },
    relocation:
      isMoved && user !== null
        ? `PostgreSQL does not run as root, and its user "${user.name}" cannot reach ` +
          `${closedFolder ?? found.directory}: what it needs is kept under ${sharedHome}/.`
        : null,
  };
}

/**
 * Lets the user through our own folder, and through ours alone. Null: it gets there; else the folder before
 * it that is closed.
 */
async function openDataDir(user: SystemUser, dataDir: string): Promise<string | null> {
  const closed = await firstClosedFolder(user, dataDir);
  const { uid, mode } = await stat(dataDir);
  if (closed !== dataDir || uid !== 0) return closed;
  // Passing through is all that is granted: the folder is not readable, and every file of ours in it is 0600.
  await chown(dataDir, 0, user.gid);
  await chmod(dataDir, (mode & 0o7777) | 0o010);
  return firstClosedFolder(user, dataDir);
}

/** The real path of the folder for data. */
async function makeHome(path: string, user: SystemUser | null, closedFolder: string | null): Promise<string> {
  const existing = await lstat(path).catch(() => null);
  if (closedFolder === null || existing?.isSymbolicLink()) {
    await mkdir(path, { recursive: true, mode: 0o700 });
  } else if (existing !== null && (await readdir(path)).length > 0) {
    throw new StartError(
      `PostgreSQL does not run as root, and its user "${user?.name}" cannot enter ${closedFolder} any more, ` +
        `where its data are (${path}). Open that folder (chmod o+x), or start as another user.`,
    );
  } else {
    await mkdir(sharedHome, { recursive: true, mode: 0o755 });
    const moved = await mkdtemp(join(sharedHome, 'data-'));
    await rm(path, { recursive: true, force: true });
    await symlink(moved, path);
  }
  const home = await realpath(path);
  if (user !== null && (await stat(home)).uid === 0) await chown(home, user.uid, user.gid);
  return home;
}

async function useCopy(found: PostgresBinaries, user: SystemUser | null): Promise<PostgresBinaries> {
  if (user !== null) {
    await mkdir(sharedHome, { recursive: true, mode: 0o755 });
    const copy = await copyBinaries(found, sharedHome);
    if (await canRun(copy, user)) return copy;
  }
  throw new StartError(
    `The embedded PostgreSQL does not run on this system: try "${join(found.directory, 'bin', 'postgres')} --version". ` +
      `It needs glibc${user === null ? '' : `, and a whole copy under ${sharedHome}`}. ` +
      'Set DATABASE_URL to use another PostgreSQL.',
  );
}

const canRun = (binaries: PostgresBinaries, user: SystemUser | null): Promise<boolean> =>
  promisify(execFile)(join(binaries.directory, 'bin', 'postgres'), ['--version'], {
    cwd: '/',
    env: { ...environment(binaries) },
    ...(user === null ? {} : { uid: user.uid, gid: user.gid }),
  }).then(
    () => true,
    () => false,
  );

/** Nothing of ours: PG* variables, LANG and the like would change what the server does. */
const environment = (binaries: PostgresBinaries): GuardedCommand['env'] => ({
  PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
  LC_ALL: 'C',
  ...(binaries.libraryPath === '' ? {} : { LD_LIBRARY_PATH: binaries.libraryPath }),
});
