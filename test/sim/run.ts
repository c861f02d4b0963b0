import { randomBytes } from 'node:crypto';
import { Command, InvalidArgumentError } from 'commander';
import { whole } from '../support/base/whole-option.ts';
import { startCoverage } from './coverage.ts';
import { mutants } from './mutants.ts';
import { parsePlaces, replayOf, shrink } from './shrink.ts';
import { findViolation, loadSimulation, type Simulation } from './simulation.ts';
import { totals } from './totals.ts';

/** `npm run sim`: plays seeds until the time is over or one fails. Ends with 1 where one fails. */
const seedOf = (text: string): bigint => {
  if (!/^\d{1,20}$/.test(text)) throw new InvalidArgumentError('A whole number of up to 64 bits.');
  return BigInt(text);
};

const command = new Command('npm run sim --')
  .description('Plays sidecars against a model of the control plane, with faults, from seeds.')
  .option('--minutes <n>', 'how long seeds are played', whole(1))
  .option('--seeds <n>', 'how many seeds are played, one after the other', whole(1), 1_000)
  .option('--from <seed>', 'the first seed; default: random with --minutes, else 1', seedOf)
  .option('--seed <seed>', 'plays one seed and prints its trace', seedOf)
  .option('--without <steps>', 'with --seed: leaves out steps of the plan, as 0-4,7', parsePlaces)
  .option('--coverage', 'prints which branches of the programs were not reached')
  .option('--mutants [part]', 'looks for the planted faults with that in their names in up to --seeds seeds');
const options = command.parse().opts<{
  minutes?: number;
  seeds: number;
  from?: bigint;
  seed?: bigint;
  without?: ReadonlySet<number>;
  coverage?: true;
  mutants?: true | string;
}>();

if (options.mutants !== undefined) await findMutants(options.mutants === true ? '' : options.mutants);
else await play();

async function play(): Promise<void> {
  const simulation = await loadSimulation();
  if (options.seed === undefined) await playMany(simulation);
  else {
    const { seed, without = new Set() } = options;
    const result = await simulation.runSeed(seed, { without, onLine: (line) => console.log(line) });
    console.log(`seed ${seed}: trace ${result.hash}`);
    if (result.violation !== null) process.exitCode = 1;
  }
}

async function playMany(simulation: Simulation): Promise<void> {
  const { minutes, seeds } = options;
  const first = options.from ?? (minutes === undefined ? 1n : randomBytes(8).readBigUInt64LE() >> 1n);
  const endsAtMs = minutes === undefined ? Number.POSITIVE_INFINITY : performance.now() + minutes * 60_000;
  const endCoverage = options.coverage === true ? await startCoverage(simulation.file) : null;
  const all = totals();
  for (let n = 0; minutes === undefined ? n < seeds : performance.now() < endsAtMs; n++) {
    const result = await simulation.runSeed(first + BigInt(n));
    all.add(result);
    if (result.violation === null) continue;
    process.exitCode = 1;
    console.log(`seed ${result.seed}: ${result.violation}`);
    const shrunk = await shrink(simulation, result);
    console.log(`with fewer steps: ${shrunk.result.violation}`);
    console.log(replayOf(shrunk));
    break;
  }
  console.log(all.text());
  for (const { file, blocks, missed } of (await endCoverage?.()) ?? []) {
    console.log(`${file}: ${blocks - missed.length} of ${blocks} blocks reached`);
    for (const block of missed) console.log(`    not reached: ${block}`);
  }
}

async function findMutants(part: string): Promise<void> {
  for (const mutant of mutants.filter(({ name }) => name.includes(part))) {
    const simulation = await loadSimulation(mutant);
    const found = await findViolation(simulation, { from: options.from ?? 1n, count: options.seeds });
    if (found === null) process.exitCode = 1;
    const outcome = found === null ? 'NOT FOUND' : `seed ${found.seed}: ${found.violation?.slice(0, 120)}`;
    console.log(`${mutant.name}: ${outcome}`);
  }
}
