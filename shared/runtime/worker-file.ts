import { randomUUID } from 'node:crypto';
import { mkdir, rename, writeFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';

const folder = new URL('../../.build/', import.meta.url);

/**
 * The program of a thread for Node.js: `name` without extension, beside the starting module, whose
 * `import.meta.url` is `of`.
 */
export const workerFile = async (of: string, name: string): Promise<string> =>
  of.endsWith('.ts') ? packWorker(new URL(`./${name}.ts`, of)) : fileURLToPath(new URL(`./${name}.js`, of));

/**
 * For programs that run from source, such as tests and `npm run dev`: bundles the TypeScript of a thread into
 * one file for Node.js and resolves to its path. A TypeScript loader in each thread would take many times as
 * long as the thread's work.
 */
export async function packWorker(source: URL): Promise<string> {
  const { build } = await import('esbuild');
  const { outputFiles } = await build({
    entryPoints: [fileURLToPath(source)],
    bundle: true,
    write: false,
    packages: 'external',
    format: 'esm',
    platform: 'node',
    target: 'node20',
  });
  const [{ contents = new Uint8Array() } = {}] = outputFiles;
  const path = fileURLToPath(new URL(`${basename(source.pathname, '.ts')}.mjs`, folder));
  // Renamed when whole, because other processes and threads may bundle and read it at the same time.
  const unfinished = `${path}.${randomUUID()}`;
  await mkdir(folder, { recursive: true });
  await writeFile(unfinished, contents);
  await rename(unfinished, path);
  return path;
}
