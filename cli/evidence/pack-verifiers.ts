import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import type { ZipEntry } from './stored-zip.ts';

/**
 * What `verify.py` imports of the client for Python. They and what they import need nothing but the standard
 * library. Not its `__init__.py`, which imports the whole client.
 */
const pythonModules = ['log', 'receipt', 'replay', 'verify'];
const packageText = '"""Of agent-trust: what verifies exports, without the rest of its client."""\n';

/** Of the source, or of the package, where `bundlePrograms` has put them. */
const sources = import.meta.url.endsWith('.ts')
  ? { runner: '../../deploy/evidence/verify.py', modules: '../../clients/python/agent_trust/' }
  : { runner: '../../evidence/verify.py', modules: '../../evidence/agent_trust/' };
const beside = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

/** The verifiers that a pack brings: one file for Node.js, and a folder for Python. */
export async function packVerifiers(): Promise<ZipEntry[]> {
  const isSource = import.meta.url.endsWith('.ts');
  const program = isSource ? await bundleVerifier() : await readFile(beside('../../evidence/verify.mjs'));
  return [{ name: 'verify.mjs', content: program }, ...(await pythonVerifier())];
}

export async function pythonVerifier(): Promise<ZipEntry[]> {
  const modules: ZipEntry[] = [];
  const names = new Set(pythonModules);
  // A set that grows while it is walked: what a module imports is walked after it.
  for (const name of names) {
    const content = await readFile(beside(`${sources.modules}${name}.py`));
    modules.push({ name: `agent_trust/${name}.py`, content });
    for (const [, imported = ''] of content.toString().matchAll(/^ *from \.(\w+) import /gm))
      names.add(imported);
  }
  return [
    { name: 'verify.py', content: await readFile(beside(sources.runner)) },
    { name: 'agent_trust/__init__.py', content: Buffer.from(packageText) },
    ...modules,
  ];
}

/**
 * `deploy/evidence/verify-pack.ts` with all that it imports, as one file that needs nothing but Node.js. It
 * is not made smaller, so that it can be read. For the build, and for what runs from source.
 */
export async function bundleVerifier(): Promise<Uint8Array> {
  const { build } = await import('esbuild');
  const { outputFiles } = await build({
    absWorkingDir: beside('../../'),
    entryPoints: ['deploy/evidence/verify-pack.ts'],
    bundle: true,
    write: false,
    format: 'esm',
    platform: 'node',
    target: 'node20',
    legalComments: 'none',
    logLevel: 'error',
  });
  const [{ contents = new Uint8Array() } = {}] = outputFiles;
  return contents;
}
