import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../../../', import.meta.url));

/** A TypeScript file of the project, for tests that hold rules against the code. */
export interface Source {
  readonly path: string;
  readonly text: string;
  readonly imports: readonly string[];
  /** The imports that are there when the file runs: not those of types alone. */
  readonly valueImports: readonly string[];
}

/** `folder`: from the project's root. Without declaration files. */
export function sourcesBelow(folder: string): Source[] {
  return readdirSync(join(root, folder), { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile() && /\.tsx?$/.test(entry.name) && !entry.name.endsWith('.d.ts'))
    .map((entry) => {
      const path = relative(root, join(entry.parentPath, entry.name));
      const text = readFileSync(join(root, path), 'utf8');
      const withoutTypes = text.replaceAll(/^(?:import|export) type [^;]*;$/gm, '');
      return { path, text, imports: importsOf(path, text), valueImports: importsOf(path, withoutTypes) };
    });
}

/** Paths of the contract: the page in front, then one for each section in their order. */
export const contractPages: readonly string[] = [
  'docs/contract.md',
  ...readdirSync(join(root, 'docs/contract'))
    .toSorted()
    .map((name) => `docs/contract/${name}`),
];

/** What is not ours or not text of ours: installed, built and left by runs. As .gitignore has it. */
const notOurs = new Set(['node_modules', 'dist', 'coverage', 'results']);

/** Paths from the project's root of all its files with one of these endings, in order. */
export function filesEnding(...endings: readonly string[]): string[] {
  const below = (folder: string): string[] =>
    readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) => {
      const path = join(folder, entry.name);
      if (entry.isDirectory())
        return entry.name.startsWith('.') || notOurs.has(entry.name) ? [] : below(path);
      return entry.isFile() && endings.some((ending) => path.endsWith(ending)) ? [path] : [];
    });
  return below('').sort();
}

/**
 * Paths from the project's root for own files, specifiers for packages. Type imports count: they are arrows
 * too.
 */
export function importsOf(path: string, text: string): string[] {
  const specifiers = [
    ...text.matchAll(/^\s*(?:import|export)\b[^'"]*?from\s+['"]([^'"]+)['"]/gm),
    ...text.matchAll(/^\s*import\s+['"]([^'"]+)['"]/gm),
    ...text.matchAll(/\bimport\(\s*['"]([^'"]+)['"]/g),
    ...text.matchAll(/new URL\(\s*['"](\.[^'"]+\.ts)['"]\s*,\s*import\.meta\.url/g),
  ].map((match) => match[1] ?? '');
  return specifiers.map((specifier) =>
    specifier.startsWith('.') ? relative(root, resolve(root, dirname(path), specifier)) : specifier,
  );
}
