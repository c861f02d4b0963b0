import { open } from 'node:fs/promises';

/** Has the names in a folder on disk: that of a new file is there only when its folder is. */
export async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}
