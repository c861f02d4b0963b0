import { chmodSync, mkdirSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { makePrivate } from '../../shared/runtime/private-folder.ts';
import { StartError } from '../../shared/runtime/start-error.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'agent-trust-private-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

const modeOf = (path: string) => (statSync(path).mode & 0o7777).toString(8);
/** A folder of these names, open as told. */
function existing(mode: number, files: Readonly<Record<string, number>> = {}): string {
  const path = join(folder, 'data');
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
    const path = join(folder, 'a', 'b');
    expect(await makePrivate(path)).toEqual([]);
    expect(modeOf(path)).toBe('700');
    expect(modeOf(join(folder, 'a'))).toBe((0o777 & ~process.umask()).toString(8));
  });

  it.each([0o755, 0o750, 0o770, 0o701, 0o777, 0o2775])(
    'is narrowed where it was open (%o), with a line',
    async (mode) => {
      const path = existing(mode, { 'admin-api-key': 0o600 });
      expect(await makePrivate(path)).toEqual([expect.stringContaining(`DATA_DIR ${path} was open`)]);
      expect(Number.parseInt(modeOf(path), 8) & 0o777).toBe(0o700);
      expect(await makePrivate(path)).toEqual([]);
    },
  );

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
    symlinkSync(path, join(folder, 'link'));
    expect(await makePrivate(join(folder, 'link'))).toHaveLength(1);
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
