import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { temporaryFolder } from '../../support/base/temporary-folder.ts';
import { sharedService } from '../../support/run/shared-services.ts';

export const run = promisify(execFile);
export const root = fileURLToPath(new URL('../../../', import.meta.url));

/** What `npm pack --json` says. */
export interface Packed {
  readonly size: number;
  readonly files: readonly { readonly path: string }[];
}

/** A folder outside of the project where the packed client was installed, offline. */
export interface InstalledClient {
  readonly folder: string;
  readonly packed: Packed;
  remove(): void;
}

/**
 * Builds and packs in a folder of its own, and installs. `others` of the project's own dependencies are put
 * beside it.
 */
export async function installClient(others: readonly string[]): Promise<InstalledClient> {
  const { path: folder, remove } = temporaryFolder();
  const quiet = ['--offline', '--no-audit', '--no-fund', '--ignore-scripts'];
  const source = join(root, 'clients/node');
  mkdirSync(join(root, '.build'), { recursive: true });
  // As deep in the project as the client, so that what it extends is found.
  const cwd = mkdtempSync(join(root, '.build/client-'));
  cpSync(source, cwd, { recursive: true, filter: (path) => path !== join(source, 'dist') });
  await run('npm', ['run', '-s', 'build'], { cwd });
  const pack = ['pack', '--json', '--ignore-scripts', '--pack-destination', folder];
  const { stdout } = await run('npm', pack, { cwd });
  rmSync(cwd, { recursive: true });
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ name: 'empty', type: 'module' }));
  const archive = readdirSync(folder).find((name) => name.endsWith('.tgz')) ?? '';
  await run('npm', ['install', ...quiet, join(folder, archive)], { cwd: folder });
  for (const name of others) {
    const place = join(folder, 'node_modules', name);
    mkdirSync(join(place, '..'), { recursive: true });
    symlinkSync(join(root, 'node_modules', name), place);
  }
  const answer = JSON.parse(stdout);
  // Npm 11 answers an array, npm 12 an object by the name of the package.
  const [packed] = Object.values<Packed>(answer);
  if (packed === undefined) throw new Error(stdout);
  return { folder, packed, remove };
}

/** Installs the package of the programs into such a folder. It has no dependencies to download. */
export async function addAgentTrust(folder: string): Promise<void> {
  const place = join(folder, 'node_modules/agent-trust');
  mkdirSync(place, { recursive: true });
  const archive = await sharedService('package');
  await run('tar', ['--extract', '--strip-components=1', '--file', archive], { cwd: place });
}
