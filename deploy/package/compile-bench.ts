import { rm } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { compileSources } from './compile-sources.ts';

/** The benchmarks, and the sources that they import, for `npm run bench`. */
const folder = fileURLToPath(new URL('../../.build/bench', import.meta.url));
await rm(folder, { recursive: true, force: true });
await compileSources(folder);
