import { fail, type Inode } from '../disk.ts';
import { theLoop } from '../loop.ts';
import { closeSync, disk, fileOf, later, openSync, resolved, rmSync, type Stats, statsOf } from './fs.ts';

/** In place of `node:fs/promises`; see `fs.ts`. */

export const open = (path: string, flags: string) =>
  later(() => {
    const fd = openSync(path, flags);
    return {
      fd,
      writeFile: (text: string | Uint8Array) =>
        later(() => {
          const { inode } = fileOf(fd);
          put(inode, text, inode.size);
        }),
      sync: () =>
        later(() => {
          const { inode } = fileOf(fd);
          if (inode.isBad) {
            inode.isBad = false;
            fail('EIO', path);
          }
          disk().sync(inode);
        }),
      close: () => later(() => closeSync(fd)),
    };
  });

function put(inode: Inode, text: string | Uint8Array, at: number): void {
  const bytes = typeof text === 'string' ? Buffer.from(text) : text;
  inode.mtimeMs = theLoop().trueMs;
  if (disk().write(inode, bytes, at) < bytes.length) fail('ENOSPC', 'write');
}

export const appendFile = (path: string, text: string) =>
  later(() => {
    const inode = disk().find(path) ?? disk().make('file', path);
    put(inode, text, inode.size);
  });

export const readFile = (path: string, _encoding?: string): Promise<string> =>
  later(() => {
    disk().touch(path);
    return disk().at(path).text();
  });

export const mkdir = (path: string, _options?: object): Promise<void> =>
  later(() => disk().makeFolders(path));

export const readdir = (path: string): Promise<string[]> =>
  later(() => {
    disk().touch(path);
    return [...disk().at(resolved(path)).entries.keys()];
  });

export const rename = (from: string, to: string): Promise<void> =>
  later(() => {
    const { folder, name } = disk().place(from);
    const inode = folder.entries.get(name) ?? fail('ENOENT', from);
    const target = disk().place(to);
    disk().touch(from);
    folder.entries.delete(name);
    target.folder.entries.set(target.name, inode);
  });

export const link = (from: string, to: string): Promise<void> =>
  later(() => {
    const inode = disk().at(from);
    const { folder, name } = disk().place(to);
    if (folder.entries.has(name)) fail('EEXIST', to);
    disk().spend(to);
    folder.entries.set(name, inode);
  });

export const rm = (path: string, options: { readonly force?: boolean; readonly recursive?: boolean } = {}) =>
  later(() => {
    const at = resolved(path);
    if (disk().find(at) === null && options.force !== true) fail('ENOENT', path);
    rmSync(at);
  });

export const rmdir = (path: string): Promise<void> =>
  later(() => {
    const inode = disk().at(path);
    if (inode.entries.size > 0) fail('ENOTEMPTY', path);
    rmSync(path);
  });

export const stat = (path: string): Promise<Stats> =>
  later(() => {
    disk().touch(path);
    return statsOf(disk().at(path));
  });

export const statfs = (_path: string): Promise<{ readonly bavail: number; readonly bsize: number }> =>
  later(() => ({ bavail: disk().trouble.isFull ? 0 : 1_000_000, bsize: 4_096 }));

export const truncate = (path: string, length: number): Promise<void> =>
  later(() => disk().at(path).truncate(length));

export const utimes = (path: string, _accessed: number, modifiedS: number): Promise<void> =>
  later(() => {
    disk().at(path).mtimeMs = modifiedS * 1_000;
  });

export const cp = (from: string, to: string): Promise<void> =>
  later(() => {
    const bytes = disk().at(from).text();
    const copy = disk().make('file', to);
    put(copy, bytes, 0);
  });

/** Only what starts programs from source calls it. */
export const writeFile = (path: string, text: string): Promise<void> => appendFile(path, text);
