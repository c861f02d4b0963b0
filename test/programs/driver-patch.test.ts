import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { programsIn } from '../support/programs.ts';
import { sharedService } from '../support/shared-services.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const run = promisify(execFile);
const root = fileURLToPath(new URL('../../', import.meta.url));
const patchPackage = join(root, 'node_modules/patch-package/index.js');

/**
 * Somebody's application that depends on agent-trust: npm puts the driver beside it, where its own
 * postinstall does not look.
 */
let folder: ReturnType<typeof temporaryFolder>;
beforeEach(async () => {
  folder = temporaryFolder();
  const modules = join(folder.path, 'node_modules');
  mkdirSync(modules);
  writeFileSync(join(folder.path, 'package.json'), '{"name":"application","version":"1.0.0"}');
  for (const name of readdirSync(join(root, 'node_modules'))) {
    if (name === 'postgres')
      cpSync(join(root, 'node_modules', name), join(modules, name), { recursive: true });
    else if (!name.startsWith('.')) symlinkSync(join(root, 'node_modules', name), join(modules, name));
  }
  const ours = join(modules, 'agent-trust');
  cpSync(join(root, 'deploy/patches'), join(ours, 'deploy/patches'), { recursive: true });
  cpSync(join(root, 'package.json'), join(ours, 'package.json'));
  cpSync(await sharedService('programs'), join(ours, 'dist'), { recursive: true });
});
afterEach(() => folder.remove());

it('refuses to start on a driver without the repair, and starts after the command that it prints', async () => {
  const programs = programsIn(join(folder.path, 'node_modules/agent-trust/dist'));
  const start = () =>
    programs.start(['control-plane'], {
      DATA_DIR: join(folder.path, 'data'),
      DATABASE_URL: 'postgres://nobody@127.0.0.1:1/nothing?sslmode=disable',
      MASTER_KEY: Buffer.alloc(32, 1).toString('base64url'),
      PORT: '0',
    });
  const patches = ['--patch-dir', 'node_modules/agent-trust/deploy/patches'];
  await run(process.execPath, [patchPackage, ...patches, '--reverse'], { cwd: folder.path });

  const unpatched = start();
  expect(await unpatched.exited).toBe(1);
  expect(unpatched.output()).toMatch(/lacks a patch/);
  expect(unpatched.output()).toContain(`In ${folder.path}, run: npx patch-package ${patches.join(' ')}\n`);

  await run(process.execPath, [patchPackage, ...patches], { cwd: folder.path });
  const patched = start();
  await patched.waitFor(/the database cannot be reached yet/);
  expect(await patched.stop()).toBe(0);
}, 300_000);
