import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);
const root = fileURLToPath(new URL('../../', import.meta.url));

/** What the programs read that the compiler does not copy. `npm run build` copies the same. */
export const readBesideCode = ['control-plane/storage/migrations', 'sidecar/openapi.json'];

/**
 * Compiles the programs as for production, into a folder of its own beside node_modules, and resolves with
 * that folder. Types are not checked once more, which would take four times as long: `npm run check` does.
 */
export async function compilePrograms(): Promise<string> {
  await mkdir(join(root, '.build'), { recursive: true });
  const folder = await mkdtemp(join(root, '.build', 'test-'));
  const compiler = join(root, 'node_modules/.bin/tsc');
  await run(compiler, ['-p', 'tsconfig.build.json', '--noCheck', '--outDir', folder], { cwd: root }).catch(
    (error) => {
      throw new Error(`the programs do not compile:\n${error.stdout}`, { cause: error });
    },
  );
  for (const read of readBesideCode) await cp(join(root, read), join(folder, read), { recursive: true });
  await run(process.execPath, [join(folder, 'deploy/pack-dependencies.js'), folder]);
  return folder;
}
