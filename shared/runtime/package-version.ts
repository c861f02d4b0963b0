import { readFileSync } from 'node:fs';

/** The version of the package that this file is compiled into, the only version shown. */
export const packageVersion: string = readVersion();

function readVersion(): string {
  for (let folder = new URL('.', import.meta.url); ; folder = new URL('..', folder)) {
    try {
      const manifest = JSON.parse(readFileSync(new URL('package.json', folder), 'utf8'));
      return manifest.version;
    } catch (error) {
      if (folder.pathname === '/') throw error;
    }
  }
}
