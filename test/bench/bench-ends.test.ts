import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, afterEach, expect, it } from 'vitest';
import { must } from '../../shared/errors/assert.ts';
import { temporaryFolder } from '../support/base/temporary-folder.ts';
import { until } from '../support/base/until.ts';

const moduleOf = (name: string): string => new URL(`../../bench/harness/${name}.ts`, import.meta.url).href;

/** A run of the bench with a folder, into which a program writes that never ends by itself. */
const runOfBench = `
import { endPrograms, onStopSignal, start } from '${moduleOf('programs')}';
import { newFolder } from '${moduleOf('folders')}';
const folder = newFolder('ends', process.argv[2]);
const writer = 'let i = 0; setInterval(() => require("node:fs").writeFileSync(process.argv[1] + "/" + i++, ""), 1)';
const program = start({ core: 0, command: [process.execPath, '-e', writer, folder] });
onStopSignal(() => {
  endPrograms();
  process.exit(130);
});
console.log(JSON.stringify({ folder, pid: program.pid }));
`;

const temporary = temporaryFolder();
afterAll(() => temporary.remove());
let bench: ChildProcess | null = null;
afterEach(() => void bench?.kill('SIGKILL'));

async function started(): Promise<{ readonly folder: string; readonly pid: number }> {
  const script = join(temporary.path, 'run.mts');
  writeFileSync(script, runOfBench);
  bench = spawn(process.execPath, ['--import', 'tsx', script, temporary.path], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [line] = await once(createInterface(must(bench.stdout, 'it is a pipe')), 'line');
  const run = JSON.parse(line) as { readonly folder: string; readonly pid: number };
  await until(() => existsSync(join(run.folder, '1')), { what: 'files of its program' });
  return run;
}

/** proc(5): one that has ended and was not waited for is a zombie. */
function isRunning(pid: number): boolean {
  try {
    return !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return false;
  }
}

it('a stopped bench leaves neither programs nor folders behind', async () => {
  const { folder, pid } = await started();
  const run = must(bench, 'it runs');
  const ended = once(run, 'exit');
  // A terminal sends one, npm another, and an impatient user more.
  const again = setInterval(() => run.kill('SIGINT'), 1);
  try {
    expect(await ended).toEqual([130, null]);
  } finally {
    clearInterval(again);
  }
  expect(existsSync(folder)).toBe(false);
  await until(() => !isRunning(pid), { what: 'the end of its program' });
});

it('a killed bench leaves no program behind', async () => {
  const { pid } = await started();
  bench?.kill('SIGKILL');
  await until(() => !isRunning(pid), { what: 'the end of its program' });
});
