import { nodeFiles, type SpoolFiles } from '../../../sidecar/attest/spool-files.ts';

/**
 * A disk whose operations fail from the `failAt`-th on, `failures` times in a row.
 *   failed                 it says so and has done nothing
 *   failed but persisted   it says so and has done everything
 *   short                  a write stops half-way and says how far it came; everything else fails
 */
export interface Fault {
  readonly failAt: number;
  readonly failures: number;
  readonly mode: 'failed' | 'failed but persisted' | 'short';
}

export interface FaultyFiles extends SpoolFiles {
  /** What was called, in order. */
  readonly calls: readonly string[];
  /** Whether the fault has happened. */
  readonly hasFailed: boolean;
}

const ioError = (what: string) => Object.assign(new Error(`EIO: i/o error, ${what}`), { code: 'EIO' });

export function faultyFiles(fault: Fault): FaultyFiles {
  const calls: string[] = [];
  let hasFailed = false;
  const fails = (what: string): boolean => {
    calls.push(what);
    const isDue = calls.length >= fault.failAt && calls.length < fault.failAt + fault.failures;
    hasFailed ||= isDue;
    return isDue;
  };
  const now = <T>(what: string, work: () => T): T => {
    if (!fails(what)) return work();
    if (fault.mode === 'failed but persisted') work();
    throw ioError(what);
  };
  const later = async <T>(what: string, work: () => Promise<T>): Promise<T> => {
    if (!fails(what)) return work();
    if (fault.mode === 'failed but persisted') await work();
    throw ioError(what);
  };
  return {
    calls,
    get hasFailed() {
      return hasFailed;
    },
    create: (path) => now('create', () => nodeFiles.create(path)),
    write: (file, bytes, length, position) => {
      const write = (count: number) => nodeFiles.write(file, bytes, count, position);
      if (fault.mode !== 'short') return now('write', () => write(length));
      return write(fails('write') ? Math.floor(length / 2) : length);
    },
    look: (path) => now('look', () => nodeFiles.look(path)),
    truncate: (file, length) => now('truncate', () => nodeFiles.truncate(file, length)),
    close: (file) => later('close', () => nodeFiles.close(file)),
    syncData: (file) => later('syncData', () => nodeFiles.syncData(file)),
    syncFile: (path) => later('syncFile', () => nodeFiles.syncFile(path)),
    syncFolder: (path) => later('syncFolder', () => nodeFiles.syncFolder(path)),
    makeFolder: (path) => later('makeFolder', () => nodeFiles.makeFolder(path)),
    list: (path) => later('list', () => nodeFiles.list(path)),
    size: (path) => later('size', () => nodeFiles.size(path)),
    read: (path, buffer, length, position) =>
      later('read', () => nodeFiles.read(path, buffer, length, position)),
    writeDurably: (path, content) => later('writeDurably', () => nodeFiles.writeDurably(path, content)),
    keep: (path, as) => later('keep', () => nodeFiles.keep(path, as)),
    removeFile: (path) => later('removeFile', () => nodeFiles.removeFile(path)),
    removeNow: (path) => now('removeNow', () => nodeFiles.removeNow(path)),
    move: (path, to) => later('move', () => nodeFiles.move(path, to)),
    stamp: (path, atMs) => later('stamp', () => nodeFiles.stamp(path, atMs)),
    freeBytes: (path) => later('freeBytes', () => nodeFiles.freeBytes(path)),
    removeFolder: (path) => later('removeFolder', () => nodeFiles.removeFolder(path)),
  };
}
