import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { buildPackage } from '../../../deploy/package/build-package.ts';
import { bundlePrograms } from '../../../deploy/package/bundle-programs.ts';
import { compileSources } from '../../../deploy/package/compile-sources.ts';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const build = join(root, '.build');

/** The sources file by file, in a folder of their own beside node_modules. Resolves with that folder. */
export async function compilePrograms(): Promise<string> {
  const folder = await newFolder();
  await compileSources(folder);
  return folder;
}

/** What `npm run build` makes, but for the console, in a folder of its own. Resolves with that folder. */
export async function bundleForTests(): Promise<string> {
  const folder = join(await newFolder(), 'dist');
  await bundlePrograms(folder);
  return folder;
}

/**
 * Packs what `npm pack` packs, from a folder of its own: the one of the project may be in use. Resolves with
 * the archive.
 */
export async function packForTests(folder: string, consoleFolder: string): Promise<string> {
  await mkdir(folder);
  for (const name of ['package.json', 'README.md', 'LICENSE']) await cp(join(root, name), join(folder, name));
  await buildPackage({ folder: join(folder, 'dist'), consoleFolder });
  await promisify(execFile)('npm', ['pack', '--ignore-scripts'], { cwd: folder });
  const archive = (await readdir(folder)).find((name) => name.endsWith('.tgz')) ?? '';
  return join(folder, archive);
}

async function newFolder(): Promise<string> {
  await mkdir(build, { recursive: true });
  return mkdtemp(join(build, 'test-'));
}
