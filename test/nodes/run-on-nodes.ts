import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { loadSimulation, tracesOn } from '../sim/simulation.ts';

/**
 * Runs the tests of lane pure and those of the clients, and compares the traces of the simulation, on every
 * version of Node that `package.json` of this folder pins, besides the one that runs everything else. The
 * binaries are packages of a folder of their own: in the package.json of the project each of them would
 * install a `node` command, which npm scripts would find before the user's.
 */
const folder = fileURLToPath(new URL('./', import.meta.url));
const root = fileURLToPath(new URL('../../', import.meta.url));
const packages = existsSync(`${folder}node_modules`) ? readdirSync(`${folder}node_modules`) : [];
const nodes = packages
  .filter((name) => name.endsWith(`-${process.platform}-${process.arch}`))
  .map((name) => `${folder}node_modules/${name}/bin/node`);

if (nodes.length === 0) {
  console.error(`There are no binaries of Node for ${process.platform} ${process.arch}: nothing was tested.`);
  process.exitCode = 1;
}
const tracedSeeds = 1_000;
const simulation = await loadSimulation();
const traces = tracesOn(process.execPath, simulation, tracedSeeds);
for (const node of nodes) {
  const version = spawnSync(node, ['--version'], { encoding: 'utf8' }).stdout.trim();
  for (const tests of [['--project', 'pure'], ['test/clients']]) {
    console.log(`\n${tests.at(-1)} on Node ${version}`);
    const { status } = spawnSync(node, ['node_modules/vitest/vitest.mjs', 'run', ...tests], {
      cwd: root,
      stdio: 'inherit',
    });
    if (status !== 0) process.exitCode = 1;
  }
  const areSame = tracesOn(node, simulation, tracedSeeds) === traces;
  console.log(
    `traces of ${tracedSeeds} simulated seeds on Node ${version}: ${areSame ? 'the same' : 'OTHERS'}`,
  );
  if (!areSame) process.exitCode = 1;
}
