import { readFile } from 'node:fs/promises';

/** Beside the program, in a build too: `npm run build` copies it. */
const file = new URL('../openapi.json', import.meta.url);

/**
 * The OpenAPI 3.1 document of this program, for `GET /openapi.json`, minified. It is derived from the control
 * plane's (test/support/data/sidecar-document.ts) and checked in, because a sidecar does not know the control
 * plane's routes. Rejects if the file is missing or not JSON: the build is incomplete.
 */
export async function readOpenApi(): Promise<string> {
  const document: unknown = JSON.parse(await readFile(file, 'utf8'));
  return JSON.stringify(document);
}
