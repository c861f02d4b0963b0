import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { rmSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { DataDirInUseError, lockDataDir } from '../../shared/runtime/data-dir-lock.ts';
import { useFolder } from '../support/base/use.ts';

const module = fileURLToPath(new URL('../../shared/runtime/data-dir-lock.ts', import.meta.url));

describe('lockDataDir', () => {
  const folder = useFolder();

  /** Another process that holds the folder until it is killed. */
  async function holder() {
    const program = `import(${JSON.stringify(module)}).then((m) => m.lockDataDir(${JSON.stringify(folder.path)}, 'sidecar'))
      .then(() => process.stdout.write('held')); setInterval(() => undefined, 1000);`;
    const child = spawn(process.execPath, ['--import', 'tsx', '--eval', program], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    await once(child.stdout, 'data');
    return child;
  }

  it('makes the folder, and refuses it to a second holder, naming it', async () => {
    const directory = join(folder.path, 'made', 'here');
    const lock = await lockDataDir(directory, 'sidecar');
    await expect(lockDataDir(directory, 'sidecar')).rejects.toThrow(DataDirInUseError);
    await expect(lockDataDir(directory, 'sidecar')).rejects.toThrow(
      `DATA_DIR ${directory} is in use by another sidecar`,
    );
    await lock.release();
  });

  it('is free again after the release', async () => {
    await (await lockDataDir(folder.path, 'sidecar')).release();
    const lock = await lockDataDir(folder.path, 'sidecar');
    await lock.release();
    await lock.release();
  });

  it('knows a folder by any of its paths', async () => {
    const link = `${folder.path}-link`;
    symlinkSync(folder.path, link);
    const lock = await lockDataDir(folder.path, 'sidecar');
    try {
      await expect(lockDataDir(link, 'sidecar')).rejects.toThrow(DataDirInUseError);
    } finally {
      rmSync(link);
      await lock.release();
    }
  });

  it('lets different roles share a folder, and one role have many folders', async () => {
    const shared = join(folder.path, 'shared');
    const locks = await Promise.all([
      lockDataDir(shared, 'sidecar'),
      lockDataDir(shared, 'control-plane'),
      lockDataDir(join(folder.path, 'other'), 'sidecar'),
    ]);
    await Promise.all(locks.map((lock) => lock.release()));
  });

  it('is held by another process until that one is killed', async () => {
    const child = await holder();
    await expect(lockDataDir(folder.path, 'sidecar')).rejects.toThrow(DataDirInUseError);
    child.kill('SIGKILL');
    await once(child, 'exit');
    await (await lockDataDir(folder.path, 'sidecar')).release();
  });
});
