import { createWriteStream, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { request } from 'undici';
import type { Installation } from './installation.ts';

/** Writes the export and the keys of an installation into a folder. */
export async function saveExport(
  world: Pick<Installation, 'adminKey'> & { readonly origin: string },
  folder: string,
): Promise<{ readonly file: string; readonly jwks: string }> {
  const names = { file: join(folder, 'export.jsonl'), jwks: join(folder, 'jwks.json') };
  const headers = { authorization: `Bearer ${world.adminKey}` };
  const exported = await request(`${world.origin}/v1/attestations/export`, { headers, bodyTimeout: 0 });
  await pipeline(exported.body, createWriteStream(names.file));
  const keys = await request(`${world.origin}/.well-known/jwks.json`);
  writeFileSync(names.jwks, await keys.body.text());
  return names;
}
