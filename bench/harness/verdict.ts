import { disturbanceOfTimes, type LatencyTable } from './latency-table.ts';
import { count } from './rounds.ts';
import { disturbanceOf, type Table } from './table.ts';
import { isTargetName, type Judged, type TargetName, targets } from './targets.ts';

/** Result of one target in a run. */
export interface Verdict {
  readonly target: TargetName;
  /** The row that measured it. */
  readonly row: string;
  /** Null where there is none: a peer is missing, or the row failed. */
  readonly figure: number | null;
  /** The same ratio by processor time; null where the figure is none. */
  readonly byProcessor: number | null;
  readonly status: 'beyond' | 'met' | 'missed' | 'not judged' | 'not measured';
  readonly remark: string;
}

export const notMeasured = (
  target: TargetName,
  { row, remark }: Pick<Verdict, 'row' | 'remark'>,
): Verdict => ({ target, row, figure: null, byProcessor: null, status: 'not measured', remark });

/** Every verdict that the table of a row supports. */
export function verdictsOf(table: Table | LatencyTable): readonly Verdict[] {
  const lateBy = 'kind' in table ? disturbanceOfTimes(table) : null;
  const figures = (table.judged ?? []).map((judged) =>
    verdictOf(table.row, { ...judged, disturbed: judged.disturbed ?? lateBy }, null),
  );
  const verdicts = [...figures, ...('kind' in table ? latencyVerdicts(table) : ratioVerdicts(table))];
  return verdicts.filter((verdict) => verdicts.every((other) => !isWorse(other, verdict)));
}

/** Of several lines about one target, the worst counts. */
function isWorse(one: Verdict, other: Verdict): boolean {
  if (one.target !== other.target || one.figure === null || other.figure === null) return false;
  return targets[one.target].bound === 'at least' ? one.figure < other.figure : one.figure > other.figure;
}

const ratioVerdicts = (table: Table): readonly Verdict[] =>
  table.lines.flatMap((line) => {
    const { versus } = line;
    if (versus === null || !isTargetName(versus.target)) return [];
    const { target, ratio, ratioByCpu } = versus;
    const disturbed = disturbanceOf(table, line);
    return [verdictOf(table.row, { target, figure: ratio.median, disturbed }, ratioByCpu.median)];
  });

function latencyVerdicts(table: LatencyTable): readonly Verdict[] {
  return table.lines.flatMap(({ target, p99Ms }) => {
    if (target === null || !isTargetName(target.name)) return [];
    const disturbed = p99Ms > target.p99MsMax ? disturbanceOfTimes(table) : null;
    return [verdictOf(table.row, { target: target.name, figure: p99Ms, disturbed }, null)];
  });
}

function verdictOf(row: string, { target, figure, disturbed }: Judged, byProcessor: number | null): Verdict {
  const { wanted, beyond, bound } = targets[target];
  const reaches = (limit: number) => (bound === 'at least' ? figure >= limit : figure <= limit);
  const judge = () => (reaches(beyond) ? 'beyond' : reaches(wanted) ? 'met' : 'missed');
  const status = disturbed === null && !Number.isNaN(figure) ? judge() : 'not judged';
  return { target, row, figure, byProcessor, status, remark: disturbed ?? '' };
}

/** A line per target. */
export function verdictCells({ target, row, figure, byProcessor, status, remark }: Verdict): string[] {
  const { what, wanted, beyond, bound, unit } = targets[target];
  const withUnit = (value: number) => `${figureText(value)}${unit === '' ? '' : ` ${unit}`}`;
  return [
    ...[target, row, what, figure === null ? '' : withUnit(figure)],
    byProcessor === null ? '' : figureText(byProcessor),
    ...[`${bound} ${figureText(wanted)} (${figureText(beyond)})`, status, remark],
  ];
}

export const verdictHeader = [
  ...['target', 'row', 'what', 'measured', 'by processor', 'wanted (beyond)', 'verdict', 'remark'],
];

const figureText = (figure: number): string => (figure < 10 ? figure.toFixed(2) : count(figure));
