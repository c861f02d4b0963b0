import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { transformSync } from 'esbuild';

// Takes out of the built files what nobody reads there: white space of the code, whose names stay for stack
// traces, and the indentation and line breaks of the comments on types. No text in the sources goes over
// several lines.
const dist = new URL('../dist/', import.meta.url);
for (const name of readdirSync(dist, { recursive: true })) {
  const file = new URL(name, dist);
  if (name.endsWith('.d.ts')) {
    const types = readFileSync(file, 'utf8').replaceAll(/^ +/gm, '');
    writeFileSync(file, types.replaceAll('\n*/', ' */').replaceAll(/\n\* ?/g, ' '));
  } else if (name.endsWith('.js')) {
    const { code } = transformSync(readFileSync(file, 'utf8'), {
      format: 'esm',
      target: 'node20',
      minifyWhitespace: true,
      minifySyntax: true,
    });
    writeFileSync(file, code);
  }
}
