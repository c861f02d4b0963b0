import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import {
  copyBinaries,
  findPostgresBinaries,
  linkLibraries,
  type PostgresBinaries,
} from '../../control-plane/storage/postgres-binaries.ts';
import { useFolder } from '../support/base/use.ts';

describe('the binaries of PostgreSQL', () => {
  const folder = useFolder();
  let binaries: PostgresBinaries;
  beforeEach(() => {
    const directory = join(folder.path, 'package', 'native');
    mkdirSync(join(directory, 'lib'), { recursive: true });
    mkdirSync(join(directory, 'bin'));
    writeFileSync(join(directory, 'bin', 'postgres'), 'program');
    chmodSync(join(directory, 'bin', 'postgres'), 0o700);
    writeFileSync(join(directory, 'lib', 'libx.so.1.2'), 'library');
    writeFileSync(
      join(directory, 'pg-symlinks.json'),
      JSON.stringify([{ source: 'native/lib/libx.so.1.2', target: 'native/lib/libx.so.1' }]),
    );
    binaries = { directory, version: '1.2', libraryPath: '' };
  });

  const link = () => join(binaries.directory, 'lib', 'libx.so.1');
  const linkThem = () => linkLibraries(binaries, join(folder.path, 'spare'));

  it('are found for this system, with their version', async () => {
    const found = await findPostgresBinaries();
    expect(found.version).toMatch(/^\d+\./);
    expect(existsSync(join(found.directory, 'bin', 'postgres'))).toBe(true);
  });

  it('get the links that their package could not hold', async () => {
    expect(await linkThem()).toEqual(binaries);
    expect(readFileSync(link(), 'utf8')).toBe('library');
    expect(existsSync(join(folder.path, 'spare'))).toBe(false);
  });

  it('keep links that are there, and survive a move', async () => {
    await linkThem();
    expect(readlinkSync(link())).toBe('libx.so.1.2');
    await linkThem();
    renameSync(join(folder.path, 'package'), join(folder.path, 'moved'));
    expect(readFileSync(join(folder.path, 'moved', 'native', 'lib', 'libx.so.1'), 'utf8')).toBe('library');
  });

  it('get a link again that leads nowhere', async () => {
    await linkThem();
    rmSync(link());
    symlinkSync('/nowhere/libx.so.1.2', link());
    await linkThem();
    expect(readFileSync(link(), 'utf8')).toBe('library');
  });

  it('are copied whole, with their links, and readable by all users', async () => {
    mkdirSync(join(folder.path, 'home'));
    const copy = await copyBinaries(binaries, join(folder.path, 'home'));
    expect(copy).toEqual({
      version: '1.2',
      libraryPath: '',
      directory: join(folder.path, 'home', 'postgres-1.2', 'native'),
    });
    expect(readFileSync(join(copy.directory, 'lib', 'libx.so.1'), 'utf8')).toBe('library');
    expect(statSync(join(copy.directory, 'bin', 'postgres')).mode & 0o777).toBe(0o755);
    expect(statSync(join(folder.path, 'home', 'postgres-1.2')).mode & 0o777).toBe(0o755);
  });

  it('are copied once, also when several starts do it at the same moment', async () => {
    mkdirSync(join(folder.path, 'home'));
    await Promise.all([1, 2, 3].map(() => copyBinaries(binaries, join(folder.path, 'home'))));
    await copyBinaries(binaries, join(folder.path, 'home'));
    expect(readdirSync(join(folder.path, 'home'))).toEqual(['postgres-1.2']);
  });
});
