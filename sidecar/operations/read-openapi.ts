import { readFile } from 'node:fs/promises';

/** In the folder of the program, also where it is compiled: `npm run build` copies it. */
const file = new URL('../openapi.json', import.meta.url);

/**
 * The OpenAPI 3.1 document of this program, for `GET /openapi.json`, without the spaces of the file. It is
 * derived from the control plane's (test/support/sidecar-document.ts) and checked in, because a sidecar knows
 * nothing of the control plane's routes. Rejects where the file is missing or is not JSON: then the build is
 * incomplete.
 */
export async function readOpenApi(): Promise<string> {
  const document: unknown = JSON.parse(await readFile(file, 'utf8'));
  return JSON.stringify(document);
}
