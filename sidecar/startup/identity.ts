import { open, readFile, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { isId, type SidecarId } from '../../shared/model/ids.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import { makeFolder } from '../../shared/runtime/make-folder.ts';
import type { Random } from '../../shared/runtime/random.ts';
import { StartError } from '../../shared/runtime/start-error.ts';
import { hasCode } from '../../shared/runtime/system-error.ts';

/**
 * The id of this sidecar at the control plane, stored in its folder, so that the next start there ships the
 * last one's spool. Made on the first start, and durable before its first use. Throws StartError if the file
 * holds anything else: under a new id the spooled records could never be shipped.
 */
export async function sidecarIdOf(
  folder: string,
  deps: { readonly clock: Clock; readonly random: Random },
): Promise<SidecarId> {
  await makeFolder(folder, { mode: 0o700 });
  const path = join(folder, 'sidecar-id');
  const known = await readIfThere(path);
  if (known === null) {
    const made = deps.random.newId('side', deps.clock.now());
    await writeForGood({ folder, path, text: `${made}\n` });
    return made;
  }
  const id = known.trimEnd();
  if (!isId('side', id)) throw new StartError(`${path} contains no sidecar id. Restore the original file.`);
  return id;
}

async function readIfThere(path: string): Promise<string | null> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return null;
    throw error;
  }
}

/** Renamed into place when whole: a crash leaves no partial id. */
async function writeForGood(file: {
  readonly folder: string;
  readonly path: string;
  readonly text: string;
}): Promise<void> {
  const draft = `${file.path}.new`;
  const handle = await open(draft, 'w', 0o600);
  try {
    await handle.writeFile(file.text);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(draft, file.path);
  const folder = await open(file.folder, 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}
