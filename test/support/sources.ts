import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../../', import.meta.url));

/** A TypeScript file of the project, for tests that hold rules against the code. */
export interface Source {
  readonly path: string;
  readonly text: string;
  readonly imports: readonly string[];
}

/** `folder`: from the project's root. Without declaration files. */
export function sourcesBelow(folder: string): Source[] {
  return readdirSync(join(root, folder), { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.ts') && !entry.name.endsWith('.d.ts'))
    .map((entry) => {
      const path = relative(root, join(entry.parentPath, entry.name));
      const text = readFileSync(join(root, path), 'utf8');
      return { path, text, imports: importsOf(path, text) };
    });
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
