import { readdirSync, readFileSync, writeFileSync } from 'node:fs';

// Takes the indentation and line breaks out of the comments on types. No text in the sources goes over
// several lines. The code stays as tsc writes it: an exception shows the line that threw, and not the whole
// file.
const dist = new URL('../dist/', import.meta.url);
for (const name of readdirSync(dist, { recursive: true })) {
  if (!name.endsWith('.d.ts')) continue;
  const file = new URL(name, dist);
  const types = readFileSync(file, 'utf8').replaceAll(/^ +/gm, '');
  writeFileSync(file, types.replaceAll('\n*/', ' */').replaceAll(/\n\* ?/g, ' '));
}
