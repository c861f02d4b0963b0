import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { DataDirInUseError, lockDataDir } from '../../shared/runtime/data-dir-lock.ts';

const module = fileURLToPath(new URL('../../shared/runtime/data-dir-lock.ts', import.meta.url));

describe('lockDataDir', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'agent-trust-lock-'));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  /** Another process that holds the folder until it is killed. */
  async function holder() {
    const program = `import(${JSON.stringify(module)}).then((m) => m.lockDataDir(${JSON.stringify(folder)}, 'sidecar'))
      .then(() => process.stdout.write('held')); setInterval(() => undefined, 1000);`;
    const child = spawn(process.execPath, ['--import', 'tsx', '--eval', program], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    await once(child.stdout, 'data');
    return child;
  }

  it('makes the folder, and refuses it to a second holder, naming it', async () => {
    const directory = join(folder, 'made', 'here');
    const lock = await lockDataDir(directory, 'sidecar');
    await expect(lockDataDir(directory, 'sidecar')).rejects.toThrow(DataDirInUseError);
    await expect(lockDataDir(directory, 'sidecar')).rejects.toThrow(
      `DATA_DIR ${directory} is in use by another sidecar`,
    );
    await lock.release();
  });

  it('is free again after the release', async () => {
    await (await lockDataDir(folder, 'sidecar')).release();
    const lock = await lockDataDir(folder, 'sidecar');
    await lock.release();
    await lock.release();
  });

  it('knows a folder by any of its paths', async () => {
    const link = `${folder}-link`;
    symlinkSync(folder, link);
    const lock = await lockDataDir(folder, 'sidecar');
    try {
      await expect(lockDataDir(link, 'sidecar')).rejects.toThrow(DataDirInUseError);
    } finally {
      rmSync(link);
      await lock.release();
    }
  });

  it('lets different roles share a folder, and one role have many folders', async () => {
    const locks = await Promise.all([
      lockDataDir(folder, 'sidecar'),
      lockDataDir(folder, 'control-plane'),
      lockDataDir(join(folder, 'other'), 'sidecar'),
    ]);
    await Promise.all(locks.map((lock) => lock.release()));
  });

  it('is held by another process until that one is killed', async () => {
    const child = await holder();
    await expect(lockDataDir(folder, 'sidecar')).rejects.toThrow(DataDirInUseError);
    child.kill('SIGKILL');
    await once(child, 'exit');
    await (await lockDataDir(folder, 'sidecar')).release();
  });
});
