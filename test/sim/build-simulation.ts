import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { build, type Plugin } from 'esbuild';
import type { Mutant } from './mutants.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));
const edges = fileURLToPath(new URL('./edges/', import.meta.url));

/** What the programs import of the outside, and what is there in a simulation. */
const replaced: Readonly<Record<string, string>> = {
  'node:fs': 'fs.ts',
  'node:fs/promises': 'fs-promises.ts',
  'node:net': 'net.ts',
  'node:timers/promises': 'timers-promises.ts',
  'node:worker_threads': 'worker-threads.ts',
  piscina: 'piscina.ts',
};

/** The engine of signatures; `edges/choose-ed25519.ts` itself has the real one. */
const engine = /\/choose-ed25519\.ts$/;

const programs = /\/(?:sidecar|shared|clients\/node\/src)\//;

/**
 * Small files and tables: a start reads and makes all of them, and in a simulation there are many. Holds
 * and lost calls end within one.
 */
const sizes: readonly Replacement[] = [
  {
    file: 'sidecar/startup/limits.ts',
    from: 'verifiedPassportsMax: 50_000',
    to: 'verifiedPassportsMax: 64',
  },
  {
    file: 'sidecar/replica/limits.ts',
    from: 'snapshotMsMax: minuteMs',
    to: 'snapshotMsMax: 10_000',
  },
  {
    file: 'shared/model/limits.ts',
    from: 'holdExpiryMsMin: minuteMs',
    to: 'holdExpiryMsMin: secondMs',
  },
  {
    file: 'sidecar/replica/limits.ts',
    from: 'shownPassportsMax: 50_000',
    to: 'shownPassportsMax: 64',
  },
  {
    file: 'shared/model/limits.ts',
    from: 'ingestBodyBytesMax: 2 * 1024 * 1024',
    to: 'ingestBodyBytesMax: 1024 * 1024',
  },
  {
    file: 'sidecar/attest/limits.ts',
    from: 'spoolSegmentBytesMax: 8 * 1024 * 1024',
    to: 'spoolSegmentBytesMax: 512 * 1024',
  },
  {
    file: 'sidecar/attest/limits.ts',
    from: 'spoolTurnBytesMax: 4 * 1024 * 1024',
    to: 'spoolTurnBytesMax: 512 * 1024',
  },
];

/** Counts what a run of the section's host does. */
const probes: readonly Replacement[] = [
  {
    file: 'sidecar/settle/asking.ts',
    from: '#perform(effect: RunEffect): void {',
    to: `#perform(effect: RunEffect): void {
      (globalThis as any).simulationCounts?.('effect ' + effect.kind);`,
  },
];

export interface Replacement {
  /** From the root of the project. */
  readonly file: string;
  /** Must be there once. */
  readonly from: string;
  readonly to: string;
}

/** The simulation and all of the sidecar in one file. `mutant`: with this fault planted. */
export async function buildSimulation(outfile: string, mutant: Mutant | null = null): Promise<void> {
  await build({
    absWorkingDir: root,
    entryPoints: [fileURLToPath(new URL('./world.ts', import.meta.url))],
    outfile,
    bundle: true,
    format: 'esm',
    platform: 'node',
    target: 'node20',
    packages: 'external',
    logLevel: 'error',
    inject: [`${edges}globals.ts`],
    plugins: [outside, replacing([...sizes, ...probes, ...(mutant?.changes ?? [])])],
  });
}

const outside: Plugin = {
  name: 'outside',
  setup(bundle) {
    bundle.onResolve({ filter: /^(?:node:.*|piscina)$/ }, ({ path, importer }) => {
      const edge = replaced[path];
      return edge === undefined || !programs.test(importer) ? null : { path: `${edges}${edge}` };
    });
    bundle.onResolve({ filter: engine }, ({ importer }) =>
      engine.test(importer) ? null : { path: `${edges}choose-ed25519.ts` },
    );
  },
};

const replacing = (replacements: readonly Replacement[]): Plugin => ({
  name: 'replacements',
  setup(bundle) {
    const files = new Set(replacements.map(({ file }) => `${root}${file}`));
    bundle.onLoad({ filter: /\.ts$/ }, async ({ path }) => {
      if (!files.has(path)) return null;
      let contents = await readFile(path, 'utf8');
      for (const { file, from, to } of replacements) {
        if (`${root}${file}` !== path) continue;
        if (contents.split(from).length !== 2)
          throw new Error(`${file} does not contain exactly once what a simulation replaces there: ${from}`);
        contents = contents.replace(from, () => to);
      }
      return { contents, loader: 'ts' };
    });
  },
});
