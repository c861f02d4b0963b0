import { chmod, lstat, mkdir, readdir, stat } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { makeFolder } from './make-folder.ts';
import { StartError } from './start-error.ts';
import { hasCode } from './system-error.ts';

/**
 * Permission bits that group and others must not have on DATA_DIR. The group may pass through (0710), so that
 * the user of an embedded PostgreSQL reaches its folder.
 */
const folderBitsForbidden = 0o067;
const fileBitsForbidden = 0o077;
const sticky = 0o1000;

/** Entries of the programs in DATA_DIR, and entries at the root of a file system. */
const ours: ReadonlySet<string> = new Set([
  'admin-api-key',
  'lost+found',
  'master-key',
  'postgres',
  'sidecar',
  'sidecar-api-key',
]);

/**
 * Creates the folder for its owner alone. If it exists, is ours and is open to others, restricts it and the
 * files directly in it, which include keys and an identity. Returns a sentence for each change. Throws
 * StartError if it belongs to another user or has other uses.
 */
export async function makePrivate(directory: string): Promise<readonly string[]> {
  const path = resolve(directory);
  await makeFolder(dirname(path));
  await mkdir(path, { mode: 0o700 }).catch((error: unknown) => {
    if (!hasCode(error, 'EEXIST')) throw error;
  });
  const notes = await narrowFolder(path);
  return [...notes, ...(await narrowFiles(path))];
}

async function narrowFolder(path: string): Promise<readonly string[]> {
  const { mode, uid } = await stat(path);
  if ((mode & folderBitsForbidden) === 0) return [];
  const shown = (mode & 0o7777).toString(8).padStart(4, '0');
  const refuse = (why: string): never => {
    throw new StartError(
      `DATA_DIR ${path} is open to other users (${shown}), and ${why}. ` +
        `Run chmod 0700 ${path}, or set DATA_DIR to a folder in it: a new one is made for its owner alone.`,
    );
  };
  if ((mode & sticky) !== 0) refuse('is a folder that users share');
  const me = process.geteuid?.();
  if (me !== undefined && uid !== me) refuse('belongs to another user');
  const names = await readdir(path);
  if (names.length > 0 && !names.some((name) => ours.has(name) && name !== 'lost+found'))
    refuse('holds other things already');
  await chmod(path, mode & 0o7777 & ~0o077);
  return [`DATA_DIR ${path} was open to other users (${shown}); it is its owner's alone now (0700)`];
}

async function narrowFiles(path: string): Promise<readonly string[]> {
  const notes: string[] = [];
  for (const name of ours) {
    const file = join(path, name);
    const found = await lstat(file).catch(() => null);
    if (found?.isFile() !== true || (found.mode & fileBitsForbidden) === 0) continue;
    await chmod(file, 0o600).catch((cause: Error) => {
      throw new StartError(
        `${file} is open to other users and cannot be narrowed: ${cause.message}. Run chmod 0600 ${file}.`,
        { cause },
      );
    });
    notes.push(`${file} was open to other users; it is its owner's alone now (0600). Roll what it holds`);
  }
  return notes;
}
