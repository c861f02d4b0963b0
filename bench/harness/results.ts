import { mkdirSync, writeFileSync } from 'node:fs';
import { cpus, release } from 'node:os';
import { join } from 'node:path';
import { packageVersion } from '../../shared/runtime/package-version.ts';
import { type LatencyTable, latencyChart, latencyMarkdown } from './latency-table.ts';
import { measuredCommit, projectRoot } from './project.ts';
import { chart, type Machine, machineLine, markdown, type Table } from './table.ts';
import { targetNames } from './targets.ts';
import { type Verdict, verdictCells, verdictHeader } from './verdict.ts';
import { verdictChart } from './verdict-chart.ts';

/** Not in git. A run that is published is copied to a folder beside it that is named for its day. */
const folder = join(projectRoot, 'bench', 'results', 'latest');
const quickRemark = 'Measured with --quick: for a look, not for a claim.';

const thisMachine = (): Machine => ({
  cpu: cpus()[0]?.model ?? 'unknown processor',
  cores: cpus().length,
  node: process.versions.node,
  kernel: release(),
  version: packageVersion,
  commit: measuredCommit(),
  measuredAt: new Date().toISOString(),
});

/** Writes the results of a row as JSON, Markdown and SVG, and returns the Markdown. */
export function writeTable(measured: Table | LatencyTable, isQuick: boolean): string {
  const table = isQuick ? { ...measured, notes: [quickRemark, ...measured.notes] } : measured;
  const machine = thisMachine();
  const isLatency = 'kind' in table;
  const page = isLatency ? latencyMarkdown(table, machine) : markdown(table, machine);
  const withChart = page.replace('\n', `\n\n![${table.title}](${table.row}.svg)\n`);
  writeFiles(table.row, {
    json: { machine, isQuick, ...table },
    page: withChart,
    chart: isLatency ? latencyChart(table) : chart(table),
  });
  return page;
}

/**
 * Writes what the rows of this run have to say about each target, and returns the table for the terminal.
 * Targets of rows that were not asked for are not in it.
 */
export function writeSummary(run: {
  readonly verdicts: readonly Verdict[];
  readonly failures: readonly string[];
  readonly isQuick: boolean;
}): string {
  const machine = thisMachine();
  const verdicts = run.verdicts.toSorted(
    (a, b) => targetNames.indexOf(a.target) - targetNames.indexOf(b.target),
  );
  const cells = [verdictHeader, ...verdicts.map(verdictCells)];
  const failures = run.failures.map((failure) => `- **Failed**: ${failure}`);
  const remarks = run.isQuick ? [quickRemark, ''] : [];
  const [header = [], ...rows] = cells.map((row) => `| ${row.join(' | ')} |`);
  const rule = `|${verdictHeader.map(() => ' --- ').join('|')}|`;
  const page = [
    ...['# What was measured, and what was wanted', '', '![verdicts](summary.svg)', '', ...remarks],
    ...[header, rule, ...rows, '', ...failures, '', machineLine(machine), ''],
  ].join('\n');
  writeFiles('summary', {
    json: { machine, isQuick: run.isQuick, verdicts, failures: run.failures },
    page,
    chart: verdictChart(verdicts),
  });
  return [...remarks, columns(cells), '', ...failures, machineLine(machine), `Results are in ${folder}`].join(
    '\n',
  );
}

function writeFiles(
  name: string,
  { json, page, chart: svg }: { readonly json: object; readonly page: string; readonly chart: string },
): void {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, `${name}.json`), `${JSON.stringify(json, null, 2)}\n`);
  writeFileSync(join(folder, `${name}.md`), page);
  writeFileSync(join(folder, `${name}.svg`), svg);
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
