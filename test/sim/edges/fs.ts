import { promisify } from 'node:util';
import { fail, type Inode } from '../disk.ts';
import { theLoop, theProcess } from '../loop.ts';

/*
 * In place of `node:fs`: what the code of a sidecar calls of it, on the disk of the machine that runs.
 * `build-simulation.ts` fails where the code begins to call more.
 */

export interface OpenFile {
  readonly inode: Inode;
  readonly path: string;
}

let lastFile = 100;

export const disk = () => theProcess().machine.disk;

export function fileOf(file: number): OpenFile {
  const found = theProcess().files.get(file);
  return found === undefined ? fail('EBADF', String(file)) : (found as OpenFile);
}

/** `/proc/self/fd/<n>` leads to an open folder. */
export function resolved(path: string): string {
  const at = /^\/proc\/self\/fd\/(\d+)(.*)$/.exec(path);
  return at === null ? path : `${fileOf(Number(at[1])).path}${at[2]}`;
}

export function openSync(path: string, flags: string): number {
  const { files } = theProcess();
  const mayMake = flags.startsWith('w') || flags.startsWith('a');
  const found = disk().find(path);
  if (found === null && !mayMake) fail('ENOENT', path);
  disk().touch(path);
  const inode = found ?? disk().make('file', path);
  if (flags.startsWith('w')) inode.truncate(0);
  files.set(++lastFile, { inode, path } satisfies OpenFile);
  return lastFile;
}

export function closeSync(file: number): void {
  fileOf(file);
  theProcess().files.delete(file);
}

export function writeSync(
  file: number,
  bytes: Uint8Array,
  offset: number,
  length: number,
  position: number,
): number {
  const { inode } = fileOf(file);
  inode.mtimeMs = theLoop().trueMs;
  return disk().write(inode, bytes.subarray(offset, offset + length), position);
}

export function ftruncateSync(file: number, length: number): void {
  disk().touch('ftruncate');
  fileOf(file).inode.truncate(length);
}

export interface Stats {
  readonly dev: number;
  readonly ino: number;
  readonly size: number;
  readonly mtimeMs: number;
}

export const statsOf = ({ number, size, mtimeMs }: Inode): Stats => ({ dev: 1, ino: number, size, mtimeMs });

export function statSync(path: string): Stats | undefined {
  disk().touch(path);
  const found = disk().find(path);
  return found === null ? undefined : statsOf(found);
}

export function rmSync(path: string): void {
  disk().touch(path);
  if (disk().find(path) === null) return;
  const { folder, name } = disk().place(path);
  folder.entries.delete(name);
}

export function readFileSync(path: string | URL): string {
  if (path instanceof URL) return JSON.stringify({ version: '0.0.0-simulated' });
  const { machine } = theProcess();
  if (path === '/proc/sys/kernel/random/boot_id') return `${machine.bootId}\n`;
  if (path === '/etc/machine-id') return `${machine.name}\n`;
  return disk().at(path).text();
}

/** The work is done, or fails, when its time has come. */
export function later<T>(work: () => T): Promise<T> {
  const { latencyMs } = disk();
  return new Promise((resolve, reject) => {
    theLoop().schedule(theProcess(), latencyMs, 'io', () => {
      try {
        resolve(work());
      } catch (error) {
        reject(error);
      }
    });
  });
}

type Done<T> = (error: unknown, value?: T) => void;
const tell = <T>(work: Promise<T>, done: Done<T>): void => {
  work.then((value) => done(null, value), done);
};

export const close = (file: number, done: Done<void>): void =>
  tell(
    later(() => closeSync(file)),
    done,
  );

export const fdatasync = (file: number, done: Done<void>): void =>
  tell(
    later(() => disk().sync(fileOf(file).inode)),
    done,
  );

type Reading = [file: number, into: Uint8Array, offset: number, length: number, position: number];
const readPromise = (...[file, into, offset, length, position]: Reading) =>
  later(() => {
    disk().touch('read');
    return { bytesRead: fileOf(file).inode.read(into, offset, length, position), buffer: into };
  });
export const read = Object.assign(
  (...[file, into, offset, length, position]: Reading) => readPromise(file, into, offset, length, position),
  { [promisify.custom]: readPromise },
);
