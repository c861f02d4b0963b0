import { cp, rm } from 'node:fs/promises';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

/**
 * Makes single files of the dependencies that come as hundreds of small modules, in `node_modules` of the
 * folder of the compiled programs, where Node.js finds them first. Their 776 modules are a third to a half of
 * what a program's start takes (`npm run bench -- start` compares both). All other dependencies, and our own
 * files, are loaded from where they are.
 *
 *     node dist/deploy/pack-dependencies.js dist
 */
const packages: Readonly<Record<string, readonly string[]>> = {
  typebox: ['typebox', 'typebox/compile'],
  'libphonenumber-js': ['libphonenumber-js/max'],
};

/** Where the files lie, below the folder of the compiled programs. */
export const packedFolder = 'node_modules';

/** `folder`: of the compiled programs. Rejects where a dependency is not installed or cannot be packed. */
export async function packDependencies(folder: string): Promise<void> {
  const to = join(folder, packedFolder);
  // What an earlier build packed would be found first, and packed again.
  await rm(to, { recursive: true, force: true });
  await Promise.all(
    Object.entries(packages).map(async ([name, imported]) => {
      const entryPoints = imported.map((each) => fileURLToPath(import.meta.resolve(each)));
      const [first = ''] = entryPoints;
      const installed = first.slice(0, first.lastIndexOf(join('node_modules', name)));
      const from = join(installed, 'node_modules');
      await build({
        entryPoints,
        outbase: from,
        outdir: to,
        outExtension: { '.js': extname(first) },
        chunkNames: `${name}/[name]-[hash]`,
        bundle: true,
        splitting: true,
        format: 'esm',
        platform: 'node',
        target: 'node20',
        logLevel: 'error',
      });
      await cp(join(from, name, 'package.json'), join(to, name, 'package.json'));
    }),
  );
}

const [script, folder] = process.argv.slice(1);
if (script === fileURLToPath(import.meta.url)) {
  if (folder === undefined) throw new Error('Name the folder of the compiled programs.');
  await packDependencies(folder);
}
