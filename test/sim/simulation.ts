/**
 * The seeded simulation: the programs of sidecars as they are, with their spool, leases, feed, settlements
 * and voids, beside a model of the control plane, in one process and one thread. All that happens follows
 * from a seed of 64 bits: clocks, timers, the network, disks, crashes, pauses, and what clients ask. The same
 * seed has the same trace on every version of Node.
 *
 *     plan.ts      what happens, from the seed; scenarios.ts and disk-scenarios.ts what hardly comes
 *                  together by chance; course-wallets.ts and wallet-scenarios.ts the trees of wallets, in
 *                  every other seed, in a part of them with a sidecar of another account beside the others
 *     world.ts     plays it, heals everything, and waits for rest
 *     clients.ts   those who ask
 *     oracle.ts    what must be true after each step, and at rest; wallet-promises.ts of wallets
 *     loop.ts      time, processes, events
 *     disk.ts      files, fsync, power cuts
 *     network.ts   calls that get lost, come late or twice
 *     model/       the control plane: its rules in memory
 *     edges/       what the programs import of Node, on top of loop, disk and network
 *     mutants.ts   faults to find
 *     run.ts       `npm run sim`
 *
 * Nothing of the programs is mocked or changed: `build-simulation.ts` bundles them with the modules of
 * `edges/` in place of `node:fs`, timers, clocks, the two kinds of threads and, for most seeds, the engine of
 * signatures, and so a fault can be planted in them without touching their files. Where the programs begin to
 * use more of Node, the build says what `edges/` lacks.
 *
 * To add a promise, say in `oracle.ts` what must be true, and plant a fault in `mutants.ts` that breaks it. A
 * seed that failed goes into `failed-seeds.ts` with its repair.
 */

import { execFileSync } from 'node:child_process';
import { mkdir } from 'node:fs/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { buildSimulation } from './build-simulation.ts';
import type { Mutant } from './mutants.ts';
import type { Result, RunOptions } from './world.ts';

export interface Simulation {
  /** The bundle, for other versions of Node. */
  readonly file: string;
  runSeed(seed: bigint, options?: RunOptions): Promise<Result>;
}

const folder = fileURLToPath(new URL('../../.build/sim/', import.meta.url));

/** `mutant`: the programs have this fault. */
export async function loadSimulation(mutant: Mutant | null = null): Promise<Simulation> {
  await mkdir(folder, { recursive: true });
  const name = (mutant?.name ?? 'as it is').replaceAll(/\W/g, '-');
  const file = `${folder}${name}-${process.pid}.mjs`;
  await buildSimulation(file, mutant);
  const { runSeed } = await import(pathToFileURL(file).href);
  return { file, runSeed };
}

/** The traces of the first seeds, one a line, as this binary of Node plays them. */
export function tracesOn(node: string, { file }: Simulation, count: number): string {
  const program = `
    const { runSeed } = await import(${JSON.stringify(pathToFileURL(file).href)});
    for (let seed = 1n; seed <= ${count}n; seed++) console.log((await runSeed(seed)).hash);`;
  return execFileSync(node, ['--input-type=module', '-e', program], { encoding: 'utf8' });
}

/** Plays seeds one after the other until one fails; null: none does. */
export async function findViolation(
  { runSeed }: Simulation,
  seeds: { readonly from: bigint; readonly count: number },
): Promise<Result | null> {
  for (let seed = seeds.from; seed < seeds.from + BigInt(seeds.count); seed++) {
    const result = await runSeed(seed);
    if (result.violation !== null) return result;
  }
  return null;
}
