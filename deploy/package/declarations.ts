import { cp, mkdir, mkdtemp, readFile, rm } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { runCompiler } from './compile-sources.ts';

/**
 * Puts the types of a module beside it in the bundle, and those that it refers to. None of them comes from a
 * dependency, which the package does not have: throws where one does.
 */
export async function addDeclarations(of: {
  readonly root: string;
  readonly folder: string;
  readonly module: string;
}): Promise<void> {
  await mkdir(join(of.root, '.build'), { recursive: true });
  const all = await mkdtemp(join(of.root, '.build', 'types-'));
  try {
    await runCompiler(['--emitDeclarationOnly', '--sourceMap', 'false', '--outDir', all]);
    const needed = new Set([join(all, `${of.module}.d.ts`)]);
    for (const file of needed) {
      for (const [, path = ''] of (await readFile(file, 'utf8')).matchAll(
        // The compiler writes inferred types as `import("…")`.
        /(?:from|import)\s*\(?\s*['"]([^'"]+)['"]/g,
      )) {
        if (!path.startsWith('.')) throw new Error(`${relative(all, file)} refers to types of ${path}`);
        needed.add(join(dirname(file), path.replace(/\.[jt]s$/, '.d.ts')));
      }
      await cp(file, join(of.folder, relative(all, file)));
    }
  } finally {
    await rm(all, { recursive: true, force: true });
  }
}
