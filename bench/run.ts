import { constants, cpus } from 'node:os';
import { join } from 'node:path';
import { compare, compareHelp } from './compare.ts';
import { keepAwake } from './harness/awake.ts';
import { projectRoot } from './harness/builds.ts';
import { measuredCore, otherCore } from './harness/cores.ts';
import { copyDatabases, databaseOf } from './harness/database.ts';
import { forgetInstallations, shareInstallations } from './harness/installation.ts';
import { endPrograms, findProgram, leaveMeasuredCore, onStopSignal } from './harness/programs.ts';
import { writePage, writeSummary } from './harness/results.ts';
import type { Measured, Row } from './harness/row.ts';
import { runRows } from './harness/run-rows.ts';
import type { Size } from './harness/size.ts';
import { targetNames } from './harness/targets.ts';
import { notMeasured, type Verdict } from './harness/verdict.ts';
import { overTcp, overTcpHelp } from './rows/over-tcp.ts';
import { rows } from './rows/rows.ts';

const help = `npm run bench -- [row ...] [--quick] [--brief] [--embedded] [--help]
npm run bench -- compare <ref> [row ...]  this build beside that of another commit (compare --help)
npm run bench -- tcp                      as users run it: several programs, all cores (tcp --help)

Measures ratios between this service and something else on this machine, in turns, and writes them to
bench/results/latest/. Without names it runs every row but those marked with *; with --quick, without those
marked with - too.

${rows.map(rowHelp).join('\n')}

  --quick     fewer and shorter rounds, three minutes in all: for a look, not for a claim
  --brief     every row for a moment, without peers: whether the bench runs, a minute
  --dist=<folder>    of rows start and embedded: a folder like dist, which is the default
  --copies-of=<url>  each database is a copy of this one, on its server
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

const valueAfter = (words: readonly string[], option: string): string | undefined =>
  words.find((word) => word.startsWith(option))?.slice(option.length);

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
  const size: Size = words.includes('--brief') ? 'brief' : words.includes('--quick') ? 'quick' : 'full';
  const copied = valueAfter(words, '--copies-of=');
  const built = valueAfter(words, '--dist=') ?? join(projectRoot, 'dist');
  const names = words.filter((word) => !/^--(quick$|brief$|embedded$|copies-of=|dist=)/.test(word));
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
  if (copied !== undefined) copyDatabases(copied);
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
  const isUsual = ({ onlyByName }: Row) =>
    size === 'brief' || onlyByName === undefined || (onlyByName === 'quick' && size === 'full');
  const chosen = rows.filter((row) => (names.length === 0 ? isUsual(row) : names.includes(row.name)));
  const write = (row: string, tables: readonly Measured[]) => print(`\n${writePage(row, tables, size)}\n`);
  const endCommon = size === 'brief' ? shareInstallations(built) : async () => undefined;
  const { verdicts, failures } = await runRows(chosen, {
    ...{ size, database: databaseOf(words), built, say, write },
    endPrograms: () => {
      endPrograms();
      forgetInstallations();
    },
    keepAwake: size === 'brief' ? () => () => undefined : () => keepAwake([measuredCore, otherCore]),
  });
  await endCommon();
  const unmeasured = names.length === 0 ? targetsWithoutRow(verdicts) : [];
  process.stdout.write(`\n${writeSummary({ verdicts: [...verdicts, ...unmeasured], failures, size })}\n`);
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
