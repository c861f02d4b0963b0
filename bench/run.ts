import { constants, cpus } from 'node:os';
import { compare, compareHelp } from './compare.ts';
import { keepAwake } from './harness/awake.ts';
import { measuredCore, otherCore } from './harness/cores.ts';
import { databaseOf } from './harness/database.ts';
import { endPrograms, findProgram, leaveMeasuredCore, onStopSignal } from './harness/programs.ts';
import { writePage, writeSummary } from './harness/results.ts';
import type { Measured, Row } from './harness/row.ts';
import { runRows } from './harness/run-rows.ts';
import { targetNames } from './harness/targets.ts';
import { notMeasured, type Verdict } from './harness/verdict.ts';
import { overTcp, overTcpHelp } from './rows/over-tcp.ts';
import { rows } from './rows/rows.ts';

const help = `npm run bench -- [row ...] [--quick] [--embedded] [--help]
npm run bench -- compare <ref> [row ...]  this build beside that of another commit (compare --help)
npm run bench -- tcp                      as users run it: several programs, all cores (tcp --help)

Measures ratios between this service and something else on this machine, in turns, and writes them to
bench/results/latest/. Without names it runs every row but those marked with *; with --quick, without those
marked with - too.

${rows.map(rowHelp).join('\n')}

  --quick     fewer and shorter rounds, three minutes in all: for a look, not for a claim
  --embedded  leases, latency, propagation, ingest, keyed and witnessed on the embedded PostgreSQL; default:
              on Debian's, over TCP
Needs two cores, taskset and setpriv, and for some rows wrk, haproxy, nginx, redis-server and PostgreSQL
(Debian: apt-get install wrk haproxy nginx redis-server postgresql). What is missing is named as skipped.
Exit code: 0 when every row came to its end, whatever it measured; 1 when one failed; 2 for a wrong command.
`;

function rowHelp({ name, describe, targets, onlyByName }: Row): string {
  const mark = onlyByName === undefined ? ' ' : { always: '*', quick: '-' }[onlyByName];
  return `${mark} ${name.padEnd(12)} ${describe}${targets.length === 0 ? '' : ` (${targets.join(', ')})`}`;
}

const say = (line: string): void => {
  process.stderr.write(`${line}\n`);
};

async function main(): Promise<number> {
  const words = process.argv.slice(2);
  const isCompare = words[0] === 'compare';
  const isOverTcp = words[0] === 'tcp';
  if (words.includes('--help')) {
    process.stdout.write(isCompare ? compareHelp : isOverTcp ? overTcpHelp : help);
    return 0;
  }
  const isQuick = words.includes('--quick');
  const names = words.filter((word) => !['--quick', '--embedded'].includes(word));
  const unknown = names.filter((name) => rows.every((row) => row.name !== name));
  if (!isCompare && !isOverTcp && unknown.length > 0) {
    say(`There is no row named ${unknown.join(', ')}.\n\n${help}`);
    return 2;
  }
  const missing = ['taskset', 'setpriv'].find((program) => findProgram(program) === null);
  if (cpus().length < 2 || missing !== undefined) {
    const needs = missing === undefined ? 'two cores' : `${missing} (Debian: apt-get install util-linux)`;
    say(`The bench needs ${needs}: what is measured has one core, and what loads it the other one.`);
    return 1;
  }
  onStopSignal(stopBy);
  const print = (text: string) => void process.stdout.write(text);
  if (isOverTcp) return overTcp(words.slice(1), { say, print });
  leaveMeasuredCore();
  if (isCompare) {
    const letSleep = keepAwake([measuredCore, otherCore]);
    try {
      return await compare(words.slice(1), { say, print });
    } finally {
      letSleep();
    }
  }
  const isUsual = ({ onlyByName }: Row) => onlyByName === undefined || (onlyByName === 'quick' && !isQuick);
  const chosen = rows.filter((row) => (names.length === 0 ? isUsual(row) : names.includes(row.name)));
  const write = (row: string, tables: readonly Measured[]) => print(`\n${writePage(row, tables, isQuick)}\n`);
  const { verdicts, failures } = await runRows(chosen, {
    ...{ isQuick, database: databaseOf(words), say, write, endPrograms },
    keepAwake: () => keepAwake([measuredCore, otherCore]),
  });
  const unmeasured = names.length === 0 ? targetsWithoutRow(verdicts) : [];
  process.stdout.write(`\n${writeSummary({ verdicts: [...verdicts, ...unmeasured], failures, isQuick })}\n`);
  return failures.length === 0 ? 0 : 1;
}

/** What the rows have started ends too. */
function stopBy(signal: 'SIGINT' | 'SIGTERM'): never {
  say(`\nStopped by ${signal}.`);
  endPrograms();
  process.exit(128 + constants.signals[signal]);
}

/** Of a run without names: those that --quick has left out. */
const targetsWithoutRow = (verdicts: readonly Verdict[]): readonly Verdict[] =>
  targetNames
    .filter((target) => verdicts.every((verdict) => verdict.target !== target))
    .map((target) => {
      const row = rows.find(({ targets }) => targets.includes(target))?.name ?? '';
      return notMeasured(target, { row, remark: `not in a quick run: npm run bench -- ${row} --quick` });
    });

process.exitCode = await main();
// A row that was given up may have left a socket open.
setTimeout(() => process.exit(), 5_000).unref();
