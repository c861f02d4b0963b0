import { execFile } from 'node:child_process';
import { cp } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { readBesideCode } from './bundle-programs.ts';

const run = promisify(execFile);
const root = fileURLToPath(new URL('../../', import.meta.url));

/**
 * Compiles the sources file by file, into a folder below the project, whose `node_modules` they use: for what
 * is not shipped, and as a yardstick for what is. Types are not checked once more, which would take four
 * times as long: `npm run check` does.
 */
export async function compileSources(folder: string): Promise<void> {
  await runCompiler(['--outDir', folder]);
  for (const path of readBesideCode) await cp(join(root, path), join(folder, path), { recursive: true });
}

/** With the settings of `tsconfig.build.json`. Throws with what the compiler says. */
export async function runCompiler(options: readonly string[]): Promise<void> {
  const compiler = join(root, 'node_modules/.bin/tsc');
  await run(compiler, ['-p', 'tsconfig.build.json', '--noCheck', ...options], { cwd: root }).catch(
    (error) => {
      throw new Error(`the programs do not compile:\n${error.stdout}`, { cause: error });
    },
  );
}
