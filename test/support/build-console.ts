import { fileURLToPath } from 'node:url';

/** Builds the console into `folder`, as `npm run build` does into its own, and resolves with `folder`. */
export async function buildConsole(folder: string): Promise<string> {
  // Loaded only here: most runs of tests need no console.
  const { build } = await import('vite');
  const configFile = fileURLToPath(new URL('../../console/vite.config.ts', import.meta.url));
  await build({ configFile, logLevel: 'error', build: { outDir: folder, emptyOutDir: true } });
  return folder;
}
