import { execFile } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { useFolder } from '../support/base/use.ts';

const run = promisify(execFile);
const root = fileURLToPath(new URL('../../', import.meta.url));

/** What `npm ci` says about the lock file before it downloads anything. */
describe('npm ci', () => {
  const folder = useFolder();

  /**
   * In a folder of its own: npm must see a clean clone, and must not touch ours. Resolves to everything that
   * npm wrote.
   */
  async function planInstallation(lock: string): Promise<string> {
    await writeFile(join(folder.path, 'package.json'), await readFile(join(root, 'package.json')));
    await writeFile(join(folder.path, 'package-lock.json'), lock);
    const { stdout, stderr } = await run(
      'npm',
      ['ci', '--dry-run', '--offline', '--ignore-scripts', '--no-audit', '--no-fund'],
      { cwd: folder.path },
    );
    return stdout + stderr;
  }

  it('installs no command that npm scripts would find before the Node and npm of the user', async () => {
    const lock = JSON.parse(await readFile(join(root, 'package-lock.json'), 'utf8'));
    const commands = Object.values<{ bin?: object }>(lock.packages).flatMap(({ bin }) =>
      Object.keys(bin ?? {}),
    );
    expect(commands).toContain('vitest');
    expect(commands.filter((name) => ['node', 'npm', 'npx'].includes(name))).toEqual([]);
  });

  it('accepts the lock file and warns of no engine', async () => {
    const said = await planInstallation(await readFile(join(root, 'package-lock.json'), 'utf8'));
    expect(said).toMatch(/added \d+ packages/);
    // Where this fails after an update: pin or override the package, see "The lock file" in
    // deploy/patches/README.md.
    expect(said).not.toContain('EBADENGINE');
  });

  it('would warn of a package that excludes this version of Node', async () => {
    const lock = JSON.parse(await readFile(join(root, 'package-lock.json'), 'utf8'));
    lock.packages['node_modules/fastify'].engines = { node: '>=1000' };
    expect(await planInstallation(JSON.stringify(lock))).toContain('EBADENGINE');
  });
});
