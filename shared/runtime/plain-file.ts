import { constants } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { hasCode } from './system-error.ts';

/**
 * What may stand for a plain file: a link to one, where its user has named it, and a pipe of the shell
 * (`<(command)`), where it is read once.
 */
export type FileForm = 'link' | 'pipe';

/**
 * Opens a file that others may have made, for reading. Throws an Error that says why not: a device may have
 * no end, and a FIFO that nobody writes has no beginning.
 */
export async function openPlainFile(path: string, also: readonly FileForm[] = []): Promise<FileHandle> {
  const { O_RDONLY, O_NONBLOCK, O_NOFOLLOW } = constants;
  const flags = O_RDONLY | (also.includes('link') ? 0 : O_NOFOLLOW);
  // Without O_NONBLOCK the call waits for the writer of a FIFO. A pipe of the shell has one.
  const isPipe = also.includes('pipe') && /^\/(?:dev|proc)\//.test(path);
  const handle = await open(path, isPipe ? flags : flags | O_NONBLOCK).catch((error: unknown) => {
    throw hasCode(error, 'ELOOP') ? new Error('it is a link, and no plain file') : error;
  });
  const found = await handle.stat();
  if (found.isFile() || (isPipe && found.isFIFO())) return handle;
  await handle.close();
  throw new Error(`it is ${found.isDirectory() ? 'a folder' : 'no plain file'}`);
}

/** Reads the whole file. Throws as `openPlainFile`, and for a file of more than `bytesMax` bytes. */
export async function readPlainFile(
  path: string,
  bytesMax: number,
  also: readonly FileForm[] = [],
): Promise<Buffer> {
  const handle = await openPlainFile(path, also);
  const tooLarge = new Error(`it is larger than ${bytesMax} bytes`);
  try {
    if ((await handle.stat()).size > bytesMax) throw tooLarge;
    // A pipe says its length only at its end, and so do the files of /proc.
    const pieces = await handle.createReadStream({ end: bytesMax, autoClose: false }).toArray();
    const bytes = Buffer.concat(pieces);
    if (bytes.length > bytesMax) throw tooLarge;
    return bytes;
  } finally {
    await handle.close();
  }
}
