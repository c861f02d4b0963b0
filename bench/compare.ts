import { type CompareRow, compareRows, type Prepared } from './compare-rows.ts';
import { type Build, buildOf, commitOf, measuredCommit } from './harness/builds.ts';
import { type DatabaseKind, databaseOf, describeDatabase, lackOf } from './harness/database.ts';
import { program } from './harness/installation.ts';
import { endPrograms } from './harness/programs.ts';
import { count, type Figures, interleaved, medianInterval, ratios } from './harness/rounds.ts';
import type { BenchOptions } from './harness/row.ts';
import { lackOfWrk } from './harness/wrk.ts';

export const compareHelp = `npm run bench -- compare <ref> [row ...] [--quick] [--embedded] [--help]

Builds the commit <ref> in a worktree of its own and measures this build beside it: both installations run,
and are loaded in turns, A B, B A, on the same core. Prints the ratio this / <ref> by processor time. A ratio
whose interval holds 1 shows no difference; half of the interval's width is the noise floor.

${compareRows.map(({ name, describe }) => `  ${name.padEnd(10)} ${describe}`).join('\n')}

  --quick     fewer rounds: for a look, not for a claim
  --embedded  keyed and ingest on the embedded PostgreSQL; default: on Debian's, over TCP
Exit code: 0 when every row came to its end, 1 when one failed, 2 for a wrong command.
`;

const options: readonly string[] = ['--quick', '--embedded'];
const rounds = { full: 12, quick: 6 } as const;

/** `words`: what follows `compare` on the command line. Returns the exit code. */
export async function compare(
  words: readonly string[],
  { say, print }: { readonly say: (line: string) => void; readonly print: (text: string) => void },
): Promise<number> {
  const isQuick = words.includes('--quick');
  const database = databaseOf(words);
  const [ref, ...names] = words.filter((word) => !options.includes(word));
  const unknown = names.filter((name) => compareRows.every((row) => row.name !== name));
  const commit = ref === undefined ? null : commitOf(ref);
  if (ref === undefined || commit === null || unknown.length > 0) {
    if (ref !== undefined && commit === null) say(`git knows no commit ${ref}.`);
    if (unknown.length > 0) say(`compare has no row named ${unknown.join(', ')}.`);
    say(compareHelp);
    return 2;
  }
  const chosen = compareRows.filter(({ name }) => names.length === 0 || names.includes(name));
  const hasDatabase = chosen.some((row) => row.hasDatabase);
  const reason = lackOfWrk() ?? (hasDatabase ? lackOf(database) : null);
  if (reason !== null) {
    say(reason);
    return 1;
  }
  const own: Build = { name: `this (${measuredCommit()})`, command: program, bench: null };
  const other = buildOf(commit, say);
  let failures = 0;
  try {
    print(header([own, other.build], hasDatabase ? database : null));
    for (const row of chosen) {
      try {
        print(await comparedRow(row, [own, other.build], { isQuick, database, say }));
      } catch (error) {
        failures += 1;
        endPrograms();
        const [reason = ''] = String((error as Error).message).split('\n');
        print(`| ${row.name} | **failed**: ${reason} | | | | |\n`);
        say(`${row.name} failed: ${(error as Error).stack}`);
      }
    }
  } finally {
    other.remove();
  }
  return failures === 0 ? 0 : 1;
}

const header = ([own, other]: readonly [Build, Build], database: DatabaseKind | null): string =>
  [
    `${own.name} / ${other.name}, by processor time`,
    '',
    ...(database === null ? [] : [describeDatabase(database), '']),
    '| row | ratio | 95 % of medians | noise floor | this, per processor second | by the clock |',
    '| --- | --- | --- | --- | --- | --- |',
    '',
  ].join('\n');

async function comparedRow(
  row: CompareRow,
  builds: readonly [Build, Build],
  { isQuick, database, say }: BenchOptions,
): Promise<string> {
  say(`\n${row.name}: ${row.describe}`);
  const prepared: Prepared[] = [];
  try {
    for (const build of builds) prepared.push(await row.prepare(build, database));
    const sides = prepared.map(({ side }) => side);
    // The compiler of Node works beside the program until then.
    for (const side of sides) await side.measure(row.secondsEach);
    const figures = await interleaved(sides, {
      rounds: isQuick ? rounds.quick : rounds.full,
      seconds: row.secondsEach,
      say,
    });
    return comparedLine(row, builds, figures);
  } finally {
    for (const each of prepared.toReversed()) await each.stop();
  }
}

/** One line of the table. */
export function comparedLine(
  { name, unit }: Pick<CompareRow, 'name' | 'unit'>,
  [own, other]: readonly [Pick<Build, 'name'>, Pick<Build, 'name'>],
  figures: Figures,
): string {
  const of = (build: Pick<Build, 'name'>, what: 'perCpuSecond' | 'perSecond') =>
    (figures.get(build.name) ?? []).map((figure) => figure[what]);
  const between = (what: 'perCpuSecond' | 'perSecond') =>
    medianInterval(ratios(of(own, what), of(other, what)));
  const { median, low, high } = between('perCpuSecond');
  const cells = [
    name,
    `**${median.toFixed(3)}**`,
    `${low.toFixed(3)} to ${high.toFixed(3)}`,
    ((high - low) / 2).toFixed(3),
    `${count(medianInterval(of(own, 'perCpuSecond')).median)} ${unit}`,
    between('perSecond').median.toFixed(3),
  ];
  return `| ${cells.join(' | ')} |\n`;
}
