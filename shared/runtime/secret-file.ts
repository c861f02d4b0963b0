import { randomBytes } from 'node:crypto';
import { link, open, readdir, readFile, rename, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { makeFolder } from './make-folder.ts';
import { syncFolder } from './sync-folder.ts';
import { hasCode } from './system-error.ts';

/**
 * The secret in this file, which `make` gives if there is none yet. The file is readable by its owner alone,
 * whole from the moment it appears, and on disk when this resolves; of two that make it at once, both get the
 * same. White space around it is ignored.
 */
export async function readOrMakeSecretFile(path: string, make: () => string): Promise<string> {
  const existing = await readSecretFile(path);
  if (existing !== null) return existing;
  await makeFolder(dirname(path));
  const temporary = `${path}.${randomBytes(6).toString('hex')}.tmp`;
  try {
    await writeSynced(temporary, make());
    // Unlike a rename, a link does not replace a file made concurrently.
    await link(temporary, path).catch((error: unknown) => {
      if (!hasCode(error, 'EEXIST')) throw error;
    });
  } finally {
    await rm(temporary, { force: true });
  }
  await syncFolder(dirname(path));
  return readFile(path, 'utf8').then((text) => text.trim());
}

/** Replaces what the file held; it is readable by its owner alone, and whole at any moment. */
export async function replaceSecretFile(path: string, secret: string): Promise<void> {
  const temporary = `${path}.${randomBytes(6).toString('hex')}.tmp`;
  try {
    await writeSynced(temporary, secret);
    await rename(temporary, path);
  } finally {
    await rm(temporary, { force: true });
  }
  await syncFolder(dirname(path));
}

/** Removes what a kill left of a replacement. Only for the one process that replaces this file. */
export async function removeUnfinished(path: string): Promise<void> {
  const folder = dirname(path);
  const start = `${basename(path)}.`;
  for (const name of await readdir(folder)) {
    const isUnfinished = name.startsWith(start) && /^[0-9a-f]{12}\.tmp$/.test(name.slice(start.length));
    if (isUnfinished) await rm(join(folder, name), { force: true });
  }
}

async function writeSynced(path: string, secret: string): Promise<void> {
  const file = await open(path, 'wx', 0o600);
  try {
    await file.writeFile(`${secret}\n`);
    await file.sync();
  } finally {
    await file.close();
  }
}

/** Null: there is no such file. */
export async function readSecretFile(path: string): Promise<string | null> {
  try {
    return (await readFile(path, 'utf8')).trim();
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return null;
    throw error;
  }
}
