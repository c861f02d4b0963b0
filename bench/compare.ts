import { type CompareRow, compareRows, type Prepared } from './compare-rows.ts';
import { type Build, buildOf, commitOf, embeddedOf, measuredCommit, projectRoot } from './harness/builds.ts';
import { type DatabaseKind, databaseOf, describeDatabase, lackOf } from './harness/database.ts';
import { program } from './harness/installation.ts';
import { endPrograms } from './harness/programs.ts';
import {
  count,
  type Figures,
  interleaved,
  type MedianInterval,
  medianInterval,
  ratios,
} from './harness/rounds.ts';
import type { BenchOptions } from './harness/row.ts';
import { lacksRoom } from './harness/shared-cache.ts';
import { lackOfWrk } from './harness/wrk.ts';

const precisionUsual = 0.02;

export const compareHelp = `npm run bench -- compare <ref> [row ...] [--precision <share>] [--quick] [--embedded]

Builds the commit <ref> in a worktree of its own and measures this build beside it: both installations run
and are loaded in turns, A B, B A, on the same core, and are started anew every few rounds. Prints the ratio
this / <ref> by processor time. A ratio whose interval holds 1 shows no difference; half of the interval's
width is the noise floor.

${compareRows.map(({ name, describe }) => `  ${name.padEnd(10)} ${describe}`).join('\n')}

  --precision  a row ends when its noise floor is this small, or after four minutes; default: ${precisionUsual}
  --quick      few rounds, one start: for a look, not for a claim
  --embedded   rows with a database on the embedded PostgreSQL; default: on Debian's, over TCP
Exit code: 0 when every row came to its end, 1 when one failed, 2 for a wrong command.
`;

interface Asked {
  readonly ref: string;
  readonly rows: readonly CompareRow[];
  readonly precision: number;
  readonly size: 'full' | 'quick';
  readonly database: DatabaseKind;
}

/** What the words after `compare` ask for; a text: what is wrong with them. */
function askedOf(words: readonly string[]): Asked | string {
  const at = words.indexOf('--precision');
  const precision = at < 0 ? precisionUsual : Number(words[at + 1]);
  if (!(precision > 0 && precision < 1)) return '--precision takes a share such as 0.02.';
  const others = at < 0 ? words : words.toSpliced(at, 2);
  const [ref, ...names] = others.filter((word) => !['--quick', '--embedded'].includes(word));
  if (ref === undefined) return 'compare needs a commit.';
  const unknown = names.filter((name) => compareRows.every((row) => row.name !== name));
  if (unknown.length > 0) return `compare has no row named ${unknown.join(', ')}.`;
  const rows = compareRows.filter(({ name }) => names.length === 0 || names.includes(name));
  return {
    ref,
    rows,
    precision,
    size: others.includes('--quick') ? 'quick' : 'full',
    database: databaseOf(others),
  };
}

/** `words`: what follows `compare` on the command line. Returns the exit code. */
export async function compare(
  words: readonly string[],
  { say, print }: { readonly say: (line: string) => void; readonly print: (text: string) => void },
): Promise<number> {
  const asked = askedOf(words);
  const commit = typeof asked === 'string' ? null : commitOf(asked.ref);
  if (typeof asked === 'string' || commit === null) {
    say(`${typeof asked === 'string' ? asked : `git knows no commit ${asked.ref}.`}\n\n${compareHelp}`);
    return 2;
  }
  const hasDatabase = asked.rows.some((row) => row.hasDatabase);
  const reason = lackOfWrk() ?? (hasDatabase ? lackOf(asked.database) : null);
  if (reason !== null) {
    say(reason);
    return 1;
  }
  const own: Build = {
    ...{ name: `this (${measuredCommit()})`, command: program, embedded: embeddedOf(projectRoot) },
  };
  const other = buildOf(commit, say);
  let failures = 0;
  try {
    const builds: Builds = [own, other.build];
    print(header(builds, hasDatabase ? asked.database : null));
    for (const [index, row] of asked.rows.entries()) {
      say(`\n[${index + 1}/${asked.rows.length}] ${row.name}: ${row.describe}`);
      try {
        const measureStart = (order: Builds) => measuredStart(row, order, { ...asked, say });
        print(comparedLine(row, builds, await comparedFigures(builds, measureStart, { ...asked, say })));
      } catch (error) {
        failures += 1;
        endPrograms();
        const [reason = ''] = String((error as Error).message).split('\n');
        print(`| ${row.name} | **failed**: ${reason} | | | | | |\n`);
        say(`${row.name} failed: ${(error as Error).stack}`);
      }
    }
  } finally {
    other.remove();
  }
  return failures === 0 ? 0 : 1;
}

type Builds = readonly [Build, Build];
type Named = readonly [Pick<Build, 'name'>, Pick<Build, 'name'>];

const header = ([own, other]: Builds, database: DatabaseKind | null): string =>
  [
    `${own.name} / ${other.name}, by processor time`,
    '',
    ...(database === null ? [] : [describeDatabase(database), '']),
    '| row | ratio | 95 % of medians | noise floor | this, per processor second | by the clock | rounds |',
    '| --- | --- | --- | --- | --- | --- | --- |',
    '',
  ].join('\n');

/**
 * Two processes of one build differ by more than the rounds of one process, by what its compiler made of the
 * first requests: so a row is the sum of several starts.
 */
const roundsOfStart = { full: 4, quick: 6 } as const;
const startsMin = 3;
/** When the next start would end later than this, the row ends, however wide its interval is. */
const rowMsMax = 240_000;

/**
 * Rounds of both builds, from one start of their programs after the other, until the noise floor is as small
 * as asked for.
 */
export async function comparedFigures<Each extends Pick<Build, 'name'>>(
  builds: readonly [Each, Each],
  measureStart: (order: readonly [Each, Each]) => Promise<Figures>,
  {
    precision,
    size,
    say,
    nowMs = () => performance.now(),
  }: Pick<Asked, 'precision' | 'size'> & Pick<BenchOptions, 'say'> & { readonly nowMs?: () => number },
): Promise<Figures> {
  const beganMs = nowMs();
  const [own, other] = builds;
  let figures: Figures = new Map();
  for (let starts = 1; ; starts += 1) {
    const startedMs = nowMs();
    const added = await measureStart(starts % 2 === 1 ? builds : [other, own]);
    figures = new Map(
      builds.map(({ name }) => [name, [...(figures.get(name) ?? []), ...(added.get(name) ?? [])]]),
    );
    const ratio = ratioOf(builds, figures, 'perCpuSecond');
    const [tookMs, leftMs] = [nowMs() - startedMs, rowMsMax - (nowMs() - beganMs)];
    say(`start ${starts}: ${intervalText(ratio)} so far; ${Math.round((nowMs() - beganMs) / 1_000)} s`);
    if (size === 'quick' || (starts >= startsMin && (noiseFloor(ratio) <= precision || tookMs > leftMs)))
      return figures;
  }
}

/** One start of both builds, prepared in this order, and its rounds. */
async function measuredStart(
  row: CompareRow,
  order: Builds,
  { size, database, say }: Pick<Asked, 'size' | 'database'> & Pick<BenchOptions, 'say'>,
): Promise<Figures> {
  const prepared: Prepared[] = [];
  try {
    for (const build of order) prepared.push(await row.prepare(build, database));
    const sides = prepared.map(({ side }) => side);
    // The compiler of Node works beside the program until then.
    for (const side of sides) await side.measure(row.secondsEach);
    const rounds = roundsOfStart[size];
    return await interleaved(sides, { rounds, seconds: row.secondsEach, say });
  } finally {
    for (const each of prepared.toReversed()) await each.stop();
  }
}

type By = 'perCpuSecond' | 'perSecond';
const figuresOf = ({ name }: Pick<Build, 'name'>, figures: Figures, by: By): number[] =>
  (figures.get(name) ?? []).map((figure) => figure[by]);
const ratioOf = ([own, other]: Named, figures: Figures, by: By): MedianInterval =>
  medianInterval(ratios(figuresOf(own, figures, by), figuresOf(other, figures, by)));
const noiseFloor = ({ low, high }: MedianInterval): number => (high - low) / 2;
const intervalText = ({ median, low, high }: MedianInterval): string =>
  `${median.toFixed(3)} (${low.toFixed(3)} to ${high.toFixed(3)})`;

/** One line of the table. */
export function comparedLine(
  { name, unit }: Pick<CompareRow, 'name' | 'unit'>,
  builds: Named,
  figures: Figures,
): string {
  const ratio = ratioOf(builds, figures, 'perCpuSecond');
  const all = builds.flatMap((build) => figures.get(build.name) ?? []);
  const crowded = all.filter(({ sharedReadNs }) => lacksRoom(sharedReadNs)).length;
  const cells = [
    name,
    `**${ratio.median.toFixed(3)}**`,
    `${ratio.low.toFixed(3)} to ${ratio.high.toFixed(3)}`,
    noiseFloor(ratio).toFixed(3),
    `${count(medianInterval(figuresOf(builds[0], figures, 'perCpuSecond')).median)} ${unit}`,
    ratioOf(builds, figures, 'perSecond').median.toFixed(3),
    `${all.length / 2}${crowded === 0 ? '' : `; no room in the shared cache before ${crowded} of ${all.length} turns`}`,
  ];
  return `| ${cells.join(' | ')} |\n`;
}
