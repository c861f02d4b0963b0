import { randomUUID } from 'node:crypto';
import { mkdir, rename, writeFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';

const folder = new URL('../../.build/', import.meta.url);

/**
 * The program of a thread, as Node.js takes it: `name` without its extension, beside the module that starts
 * it, whose `import.meta.url` is `of`.
 */
export const workerFile = async (of: string, name: string): Promise<string> =>
  of.endsWith('.ts') ? packWorker(new URL(`./${name}.ts`, of)) : fileURLToPath(new URL(`./${name}.js`, of));

/**
 * For a program that runs from source, as tests and `npm run dev` do: packs the TypeScript of a thread into
 * one file that Node.js takes as it is, and resolves with its path. To teach each thread TypeScript takes
 * many times as long as what the thread is for.
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
  // Other processes, and other threads of this one, may pack and read it now: it appears whole.
  const unfinished = `${path}.${randomUUID()}`;
  await mkdir(folder, { recursive: true });
  await writeFile(unfinished, contents);
  await rename(unfinished, path);
  return path;
}
