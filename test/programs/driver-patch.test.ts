import { execFile } from 'node:child_process';
import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { refuseUnpatchedDriver } from '../../deploy/package/driver-patch.ts';
import { temporaryFolder } from '../support/base/temporary-folder.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));

it('the build refuses a driver without the repair, and takes it again after the command that it prints', async () => {
  const folder = temporaryFolder();
  try {
    const driver = join(folder.path, 'node_modules/postgres');
    for (const path of ['package.json', 'deploy/patches', 'node_modules/postgres'])
      cpSync(join(root, path), join(folder.path, path), { recursive: true });
    const patchPackage = [join(root, 'node_modules/patch-package/index.js'), '--patch-dir', 'deploy/patches'];
    const run = (...more: string[]) =>
      promisify(execFile)(process.execPath, [...patchPackage, ...more], { cwd: folder.path });

    await run('--reverse');
    expect(() => refuseUnpatchedDriver(join(driver, 'src'))).toThrow(
      /lacks a patch .*Run: npm run dependencies$/,
    );
    await run();
    expect(() => refuseUnpatchedDriver(join(driver, 'src'))).not.toThrow();
  } finally {
    folder.remove();
  }
}, 120_000);
