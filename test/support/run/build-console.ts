import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const at = (path: string): string => fileURLToPath(new URL(`../../../${path}`, import.meta.url));

/**
 * Builds the console into `folder`, as `npm run build` does into its own, and resolves with `folder`. In a
 * process of its own: vitest sets NODE_ENV, and Vite would take the parts that are for development.
 */
export async function buildConsole(folder: string): Promise<string> {
  const build = ['build', at('console'), '--outDir', folder, '--emptyOutDir', '--logLevel', 'error'];
  await promisify(execFile)(process.execPath, [at('node_modules/vite/bin/vite.js'), ...build], {
    env: { ...process.env, NODE_ENV: 'production' },
  });
  return folder;
}
