import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { interleaved, type Side } from '../harness/rounds.ts';
import type { BenchOptions } from '../harness/row.ts';
import { type Table, tableLine } from '../harness/table.ts';

const programs = ['control-plane', 'sidecar'] as const;

/**
 * What loading a program takes as it is shipped, in a few files with its dependencies
 * (deploy/package/bundle-programs.ts), and file by file.
 */
export async function start({ size, built, say }: BenchOptions): Promise<Table> {
  const rounds = { full: 7, quick: 2, brief: 1 }[size];
  // This very program, as `compile-bench.ts` has made it.
  const compiled = fileURLToPath(new URL('../../', import.meta.url));
  for (const folder of [built, compiled])
    if (!existsSync(folder)) throw new Error('this row measures what `npm run bench` builds');
  const cases = programs.map((name) => ({
    packed: sideOf(`${name}, as shipped`, join(built, name, 'main.js')),
    plain: sideOf(`${name}, file by file`, join(compiled, name, 'main.js')),
  }));
  const sides = cases.flatMap(({ packed, plain }) => [packed, plain]);
  const figures = await interleaved(sides, { rounds, seconds: 0, say });
  const lines = cases.flatMap(({ packed, plain }) => [
    tableLine({ name: packed.name, does: '', doesNot: '', target: null }, figures, packed.name),
    tableLine(
      { name: plain.name, does: '', doesNot: '', target: { name: 'orientation', wanted: 1 } },
      figures,
      packed.name,
    ),
  ]);
  const notes = [
    'One start of Node.js that imports the program and ends. Each ratio is shipped over file by file.',
  ];
  const title = 'Loading a program';
  return { row: 'start', title, unit: 'starts/s', rounds, secondsEach: 0, lines, skipped: [], notes };
}

const sideOf = (name: string, main: string): Side => ({
  name,
  measure: async () => {
    const before = performance.now();
    const cpuS = loadingCpuSeconds(main);
    const elapsedS = (performance.now() - before) / 1_000;
    return { perSecond: 1 / elapsedS, perCpuSecond: 1 / cpuS, coresBusy: cpuS / elapsedS };
  },
});

/** The processor time that the process itself reports at its end. */
function loadingCpuSeconds(main: string): number {
  const script = `await import(${JSON.stringify(pathToFileURL(main).href)});
    const { userCPUTime, systemCPUTime } = process.resourceUsage();
    console.log((userCPUTime + systemCPUTime) / 1e6);`;
  return Number(execFileSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' }));
}
