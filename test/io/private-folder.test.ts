import { chmodSync, mkdirSync, readdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { writeProfiles } from '../../cli/base/profiles.ts';
import { makeFolder } from '../../shared/runtime/make-folder.ts';
import { makePrivate } from '../../shared/runtime/private-folder.ts';
import { StartError } from '../../shared/runtime/start-error.ts';
import { useFolder } from '../support/base/use.ts';

const folder = useFolder();

const modeOf = (path: string) => (statSync(path).mode & 0o7777).toString(8);
/** A folder of these names, open as told. */
function existing(mode: number, files: Readonly<Record<string, number>> = {}): string {
  const path = join(folder.path, 'data');
  mkdirSync(path);
  for (const [name, fileMode] of Object.entries(files)) {
    writeFileSync(join(path, name), 'x');
    chmodSync(join(path, name), fileMode);
  }
  chmodSync(path, mode);
  return path;
}

describe('DATA_DIR', () => {
  it('is made for its owner alone, and folders before it as usual', async () => {
    const path = join(folder.path, 'a', 'b');
    expect(await makePrivate(path)).toEqual([]);
    expect(modeOf(path)).toBe('700');
    expect(modeOf(join(folder.path, 'a'))).toBe((0o777 & ~process.umask()).toString(8));
  });

  it.each([0o755, 0o701, 0o2775])('is narrowed where it was open (%o), with a line', async (mode) => {
    const path = existing(mode, { 'admin-api-key': 0o600 });
    expect(await makePrivate(path)).toEqual([expect.stringContaining(`DATA_DIR ${path} was open`)]);
    expect(Number.parseInt(modeOf(path), 8) & 0o777).toBe(0o700);
    expect(await makePrivate(path)).toEqual([]);
  });

  it.each([0o700, 0o710])('is unchanged if no other user can read it (%o)', async (mode) => {
    const path = existing(mode, { 'admin-api-key': 0o600 });
    expect(await makePrivate(path)).toEqual([]);
    expect(modeOf(path)).toBe(mode.toString(8));
  });

  it.each(['admin-api-key', 'master-key'])('narrows %s in it, which others could read', async (name) => {
    const path = existing(0o700, { [name]: 0o644, 'notes.txt': 0o644 });
    expect(await makePrivate(path)).toEqual([expect.stringContaining(`${join(path, name)} was open`)]);
    expect(modeOf(join(path, name))).toBe('600');
    expect(modeOf(join(path, 'notes.txt'))).toBe('644');
  });

  it('is narrowed at the end of a link too', async () => {
    const path = existing(0o755);
    symlinkSync(path, join(folder.path, 'link'));
    expect(await makePrivate(join(folder.path, 'link'))).toHaveLength(1);
    expect(modeOf(path)).toBe('700');
  });

  it('is refused if users share it or it has other uses, which a chmod would break', async () => {
    const path = existing(0o755, { 'photo.jpg': 0o644 });
    await expect(makePrivate(path)).rejects.toThrow(/holds other things already\. Run chmod 0700/);
    expect(modeOf(path)).toBe('755');
    chmodSync(path, 0o1777);
    await expect(makePrivate(path)).rejects.toThrow(/that users share/);
    await expect(makePrivate(path)).rejects.toThrow(StartError);
    // As the sentence says: a folder in it is made for its owner alone.
    expect(await makePrivate(join(path, 'agent-trust'))).toEqual([]);
    expect(modeOf(join(path, 'agent-trust'))).toBe('700');
  });

  it.runIf(process.geteuid?.() === 0)('is refused where it belongs to another user', async () => {
    const path = existing(0o755);
    const { chownSync } = await import('node:fs');
    chownSync(path, 65_534, 65_534);
    await expect(makePrivate(path)).rejects.toThrow(/belongs to another user/);
    expect(modeOf(path)).toBe('755');
  });
});

describe('a folder that cannot be made', () => {
  // Node.js never ends a recursive mkdir there.
  it.each(['/proc/nonexistent', '/proc/nonexistent/a/b', '/dev/null/a'])(
    'is an error at once: %s',
    async (path) => {
      await expect(makeFolder(path)).rejects.toThrow(/ENOENT|ENOTDIR|EACCES/);
      await expect(makePrivate(join(path, 'data'))).rejects.toThrow(/ENOENT|ENOTDIR|EACCES/);
      const none = { current: null, profiles: {} };
      await expect(writeProfiles({ HOME: path }, none)).rejects.toThrow(/config\.json cannot be written: E/);
    },
  );

  it('is made below what is there, also by several at the same moment', async () => {
    const path = join(folder.path, 'a', 'b', 'c');
    await Promise.all(Array.from({ length: 8 }, () => makeFolder(path, { mode: 0o700 })));
    expect([modeOf(path), modeOf(join(folder.path, 'a'))]).toEqual(['700', '700']);
    await makeFolder(path);
    writeFileSync(join(path, 'file'), '');
    await expect(makeFolder(join(path, 'file'))).rejects.toThrow(/EEXIST/);
  });

  it('is made beside others whose folders above are missing, too', async () => {
    for (let round = 0; round < 60; round += 1) {
      const above = join(folder.path, 'several', String(round), 'of', 'a', 'sidecar');
      await Promise.all(Array.from({ length: 8 }, (_, n) => makeFolder(join(above, String(n % 4)))));
      expect(readdirSync(above)).toEqual(['0', '1', '2', '3']);
    }
  });
});
