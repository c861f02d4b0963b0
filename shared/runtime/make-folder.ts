import { mkdir, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { hasCode } from './system-error.ts';

/**
 * Makes the folder and those above it that are missing, as `mkdir` with `recursive` does, which Node.js never
 * ends where a folder that exists refuses new ones with ENOENT, as /proc does. `mode`: of the folders that
 * are made. Throws what `mkdir` throws.
 */
export async function makeFolder(path: string, { mode }: { readonly mode?: number } = {}): Promise<void> {
  const make = () => mkdir(path, mode);
  try {
    await make();
  } catch (error) {
    if (await isFolder(path)) return;
    const above = dirname(path);
    if (!hasCode(error, 'ENOENT') || above === path) throw error;
    // Another program may have made it since.
    if (!(await isFolder(above))) await makeFolder(above, mode === undefined ? {} : { mode });
    await make().catch(async (again: unknown) => {
      if (!(await isFolder(path))) throw again;
    });
  }
}

const isFolder = (path: string): Promise<boolean> =>
  stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  );
