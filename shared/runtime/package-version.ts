import { readFileSync } from 'node:fs';

/** The package that this file belongs to, wherever it was compiled to. */
export function packageVersion(): string {
  for (let folder = new URL('.', import.meta.url); ; folder = new URL('..', folder)) {
    try {
      const manifest = JSON.parse(readFileSync(new URL('package.json', folder), 'utf8'));
      return manifest.version;
    } catch (error) {
      if (folder.pathname === '/') throw error;
    }
  }
}
