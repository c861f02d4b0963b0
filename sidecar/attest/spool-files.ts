import {
  close,
  closeSync,
  fdatasync,
  ftruncateSync,
  openSync,
  read,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs';
import { link, open, readdir, rename, rm, rmdir, stat, statfs, utimes } from 'node:fs/promises';
import { dirname } from 'node:path';
import { promisify } from 'node:util';
import type { UnixMillis } from '../../shared/model/time.ts';
import { makeFolder } from '../../shared/runtime/make-folder.ts';
import { hasCode } from '../../shared/runtime/system-error.ts';

const readAsync = promisify(read);
const closeAsync = promisify(close);

/**
 * The disk operations of the spool. Every call may fail, even after it has done its work; test/faults runs
 * the spool against both at every step.
 */
export interface SpoolFiles {
  /** Opens an empty file for writing and reading; earlier content is deleted. */
  create(path: string): number;
  /** Writes the first `length` bytes at `position`. Returns how many were written, possibly fewer. */
  write(file: number, bytes: Uint8Array, length: number, position: number): number;
  truncate(file: number, length: number): void;
  /** Identity of the file or folder at the path; null if there is none. */
  look(path: string): FileIdentity | null;
  /** Resolves when the content of the file would survive a power cut. */
  syncData(file: number): Promise<void>;
  /**
   * The same for a file written by another process. Also rejects after an earlier write-back error that the
   * kernel has not reported yet.
   */
  syncFile(path: string): Promise<void>;
  /**
   * The descriptor must not be used after this call. The last close of a removed file waits until the file
   * system has freed its blocks, 5 to 10 ms for a full segment, so it does not run on the event loop.
   */
  close(file: number): Promise<void>;

  /** Resolves when files created in the folder would be found after a power cut. */
  syncFolder(path: string): Promise<void>;
  /** Makes the folder and those above it; it may exist. */
  makeFolder(path: string): Promise<void>;
  /** Names in the folder, in order; empty if there is no such folder. */
  list(path: string): Promise<readonly string[]>;
  size(path: string): Promise<number>;
  /**
   * Reads up to `length` bytes from `position` to the start of `buffer`. Returns how many; fewer only at the
   * end of the file. A descriptor reads a file even if its path is gone.
   */
  read(file: string | number, buffer: Uint8Array, length: number, position: number): Promise<number>;
  /**
   * Creates or replaces a file, and its folder if that is gone. Resolves when content and name would survive
   * a power cut.
   */
  writeDurably(path: string, content: Uint8Array): Promise<void>;
  /**
   * Gives the file a second name in another folder, which survives removal of the first. The name may exist.
   */
  keep(path: string, as: string): Promise<void>;
  /** The file may be gone already. */
  removeFile(path: string): Promise<void>;
  /** The same at once, on the event loop. */
  removeNow(path: string): void;
  /** Removes an empty folder, which may be gone already. */
  removeFolder(path: string): Promise<void>;
  /** Renames a file into another folder of the same file system. */
  move(path: string, to: string): Promise<void>;
  /** Sets when the file was modified. */
  stamp(path: string, atMs: UnixMillis): Promise<void>;
  /** Bytes that the file system of this folder has left for this user. */
  freeBytes(path: string): Promise<number>;
}

/** Identity of a file or folder, independent of its name. */
export interface FileIdentity {
  readonly device: number;
  readonly inode: number;
  readonly bytes: number;
  readonly modifiedAtMs: UnixMillis;
}

export const isSameFile = (one: FileIdentity | null, other: FileIdentity | null): boolean =>
  one !== null && other !== null && one.device === other.device && one.inode === other.inode;

async function syncPath(path: string): Promise<void> {
  const of = await open(path, 'r');
  try {
    await of.sync();
  } finally {
    await of.close();
  }
}

export const nodeFiles: SpoolFiles = {
  create: (path) => openSync(path, 'w+', 0o600),
  write: (file, bytes, length, position) => writeSync(file, bytes, 0, length, position),
  truncate: (file, length) => ftruncateSync(file, length),
  look(path) {
    const found = statSync(path, { throwIfNoEntry: false });
    if (found === undefined) return null;
    const modifiedAtMs = Math.floor(found.mtimeMs) as UnixMillis;
    return { device: found.dev, inode: found.ino, bytes: found.size, modifiedAtMs };
  },
  syncData: (file) =>
    new Promise((resolve, reject) => fdatasync(file, (error) => (error ? reject(error) : resolve()))),
  syncFile: syncPath,
  close: (file) => closeAsync(file),

  syncFolder: syncPath,
  async makeFolder(path) {
    await makeFolder(path, { mode: 0o700 });
  },
  async list(path) {
    try {
      return (await readdir(path)).sort();
    } catch (error) {
      if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return [];
      throw error;
    }
  },
  size: async (path) => (await stat(path)).size,
  async read(of, buffer, length, position) {
    // A synchronous open takes microseconds; through the thread pool it takes as long as the read.
    const file = typeof of === 'number' ? of : openSync(of, 'r');
    try {
      let filled = 0;
      while (filled < length) {
        const { bytesRead } = await readAsync(file, buffer, filled, length - filled, position + filled);
        if (bytesRead === 0) break;
        filled += bytesRead;
      }
      return filled;
    } finally {
      if (typeof of === 'string') closeSync(file);
    }
  },
  async writeDurably(path, content) {
    await nodeFiles.makeFolder(dirname(path));
    const file = await open(path, 'w', 0o600);
    try {
      await file.writeFile(content);
      await file.sync();
    } finally {
      await file.close();
    }
    await nodeFiles.syncFolder(dirname(path));
  },
  async keep(path, as) {
    try {
      await link(path, as);
    } catch (error) {
      if (!hasCode(error, 'EEXIST')) throw error;
    }
    await nodeFiles.syncFolder(dirname(as));
  },
  removeFile: (path) => rm(path, { force: true }),
  removeNow: (path) => rmSync(path, { force: true }),
  async removeFolder(path) {
    try {
      await rmdir(path);
    } catch (error) {
      if (!hasCode(error, 'ENOENT')) throw error;
    }
  },
  move: rename,
  stamp: (path, atMs) => utimes(path, atMs / 1_000, atMs / 1_000),
  async freeBytes(path) {
    const { bavail, bsize } = await statfs(path);
    return bavail * bsize;
  },
};
