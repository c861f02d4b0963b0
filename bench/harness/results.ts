import { mkdirSync, writeFileSync } from 'node:fs';
import { cpus, release } from 'node:os';
import { join } from 'node:path';
import { packageVersion } from '../../shared/runtime/package-version.ts';
import { measuredCommit, projectRoot } from './builds.ts';
import { chart, chartLinesMin, latencyChart, verdictChart } from './charts.ts';
import { latencyMarkdown } from './latency-table.ts';
import type { Measured } from './row.ts';
import type { Size } from './size.ts';
import { type Machine, machineLine, markdown } from './table.ts';
import { targetNames } from './targets.ts';
import { type Verdict, verdictCells, verdictHeader } from './verdict.ts';

/** Not in git. A published run is copied to the folder beside it that is named for its machine. */
const folder = join(projectRoot, 'bench', 'results', 'latest');
const remarksOf: Readonly<Record<Size, readonly string[]>> = {
  full: [],
  quick: ['Measured with --quick: for a look, not for a claim.'],
  brief: ['Run with --brief: this says that the rows run, and nothing about speed.'],
};

const thisMachine = (): Machine => ({
  cpu: cpus()[0]?.model ?? 'unknown processor',
  cores: cpus().length,
  node: process.versions.node,
  kernel: release(),
  version: packageVersion,
  commit: measuredCommit(),
  measuredAt: new Date().toISOString(),
});

/** Writes the page of a row and its charts, and returns the page. */
export function writePage(row: string, tables: readonly Measured[], size: Size): string {
  const write = writerOf(size);
  const sections = tables.map((measured) => {
    const table = { ...measured, notes: [...remarksOf[size], ...measured.notes] };
    const isLatency = 'kind' in table;
    const section = isLatency ? latencyMarkdown(table) : markdown(table);
    const isUncharted = !isLatency && table.isUncharted === true;
    if (isUncharted || table.lines.length < chartLinesMin) return section;
    write(`${table.row}.svg`, isLatency ? latencyChart(table) : chart(table));
    return section.replace('\n', `\n\n![${table.title}](${table.row}.svg)\n`);
  });
  const page = [...sections, machineLine(thisMachine()), ''].join('\n');
  write(`${row}.md`, page);
  return page;
}

/**
 * Writes what the rows of this run have to say about each target, and returns the table for the terminal.
 * Targets of rows that were not asked for are not in it.
 */
export function writeSummary(run: {
  readonly verdicts: readonly Verdict[];
  readonly failures: readonly string[];
  readonly size: Size;
}): string {
  const machine = thisMachine();
  const write = writerOf(run.size);
  const verdicts = run.verdicts.toSorted(
    (a, b) => targetNames.indexOf(a.target) - targetNames.indexOf(b.target),
  );
  const cells = [verdictHeader, ...verdicts.map(verdictCells)];
  const failures = run.failures.map((failure) => `- **Failed**: ${failure}`);
  const remarks = remarksOf[run.size].flatMap((remark) => [remark, '']);
  const [header = [], ...rows] = cells.map((row) => `| ${row.join(' | ')} |`);
  const rule = `|${verdictHeader.map(() => ' --- ').join('|')}|`;
  const page = [
    ...['# What was measured, and what was wanted', '', '![verdicts](summary.svg)', '', ...remarks],
    ...[header, rule, ...rows, '', ...failures, '', machineLine(machine), ''],
  ].join('\n');
  write('README.md', page);
  write('summary.svg', verdictChart(verdicts));
  return [...remarks, columns(cells), '', ...failures, machineLine(machine), `Results are in ${folder}`].join(
    '\n',
  );
}

/** A brief run has nothing to keep. */
const writerOf = (size: Size) => (size === 'brief' ? () => undefined : writeFile);

function writeFile(name: string, text: string): void {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, name), text);
}

/** Cells below each other, for a terminal. */
function columns(lines: readonly (readonly string[])[]): string {
  const widths = (lines[0] ?? []).map((_, column) =>
    Math.max(...lines.map((cells) => (cells[column] ?? '').length)),
  );
  return lines
    .map((cells) =>
      cells
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}
