import { link, rename, rm } from 'node:fs/promises';
import { hasCode } from '../../shared/runtime/system-error.ts';

/** What a file system says that has no second names of files: FAT, and some of networks. */
const noLinks = ['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK'];

/**
 * Gives a finished file its name. False: that name is taken, and what has it stays as it is; of several that
 * publish under one name at once, one does. A file system without hard links cannot tell: there the last one
 * wins.
 */
export async function publishFile(from: string, to: string): Promise<boolean> {
  try {
    await link(from, to);
  } catch (error) {
    if (hasCode(error, 'EEXIST')) return false;
    if (!noLinks.some((code) => hasCode(error, code))) throw error;
    await rename(from, to);
    return true;
  }
  await rm(from);
  return true;
}
