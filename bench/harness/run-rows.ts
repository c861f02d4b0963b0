import { setTimeout as pause } from 'node:timers/promises';
import type { BenchOptions, Measured, Row } from './row.ts';
import { sharedCacheReadNs } from './shared-cache.ts';
import type { Size } from './size.ts';
import { notMeasured, type Verdict, verdictsOf } from './verdict.ts';

/** No row starts later than this: one and a half times the run of a quiet machine. */
const wholeRunMsMax = 65 * 60_000;
/** A row is given up after this many times its usual length. */
const patience = 4;
const rowSecondsMin = 180;
/** Time to clean up after a row was given up and its programs were ended. */
const tidyingMsMax = 30_000;

export interface RunOptions extends BenchOptions {
  /** Called at once with the tables of each row that came to its end. */
  readonly write: (row: string, tables: readonly Measured[]) => void;
  /** Ends all programs that a row has left running. */
  readonly endPrograms: () => void;
  /** Keeps the cores awake until the function that it returns is called. */
  readonly keepAwake: () => () => void;
  /** Default: sharedCacheReadNs. */
  readonly sharedReadNs?: () => number;
}

export interface Outcome {
  readonly verdicts: readonly Verdict[];
  /** One line for each row that did not come to its end. */
  readonly failures: readonly string[];
}

/** Runs one row after the other; reports a row that fails and goes on. */
export async function runRows(
  chosen: readonly Row[],
  { write, sharedReadNs = sharedCacheReadNs, ...options }: RunOptions,
): Promise<Outcome> {
  const verdicts: Verdict[] = [];
  const failures: string[] = [];
  const startedMs = performance.now();
  const { size, say, endPrograms } = options;
  const progress = estimate(chosen, size);
  for (const [index, row] of chosen.entries()) {
    say(`\n[${index + 1}/${chosen.length}] ${row.name}: ${row.describe}; ${progress.left(index)}`);
    const begunMs = performance.now();
    try {
      if (begunMs - startedMs > wholeRunMsMax)
        throw new Error(`not begun: the run has taken ${wholeRunMsMax / 60_000} minutes already`);
      const tables = await betweenReads(sharedReadNs, () => runRow(row, options));
      write(row.name, tables);
      say(`${row.name} took ${((performance.now() - begunMs) / 1_000).toFixed(1)} s.`);
      const measured = tables.flatMap(verdictsOf);
      failures.push(...tables.flatMap(failedSides).map((side) => `${row.name}: ${side}`));
      verdicts.push(...measured, ...missing(row, measured, 'not measured here: see what was skipped'));
    } catch (error) {
      say(`${row.name} FAILED: ${error instanceof Error ? error.stack : String(error)}`);
      const [reason = ''] = String(error instanceof Error ? error.message : error).split('\n');
      failures.push(`${row.name}: ${reason}`);
      verdicts.push(...missing(row, [], `the row failed: ${reason}`));
      endPrograms();
    }
  }
  say(`\nAll rows took ${minutes(performance.now() - startedMs)} minutes.`);
  return { verdicts, failures };
}

/** Tables of sides have a read per measurement; tables of waiting times get one before and one after. */
async function betweenReads(
  readNs: () => number,
  run: () => Promise<readonly Measured[]>,
): Promise<readonly Measured[]> {
  const before = readNs();
  const tables = await run();
  const sharedReadNs = { before, after: readNs() };
  return tables.map((table) => ('kind' in table ? { ...table, sharedReadNs } : table));
}

/** Rejects with the row's error, or when the row takes too long. */
async function runRow(
  row: Row,
  { endPrograms, keepAwake, ...options }: Omit<RunOptions, 'write' | 'sharedReadNs'>,
): Promise<readonly Measured[]> {
  const expectedS = secondsOf(row, options.size);
  const secondsMax = Math.max(rowSecondsMin, expectedS * patience);
  const letSleep = row.mayCoresSleep === true ? () => undefined : keepAwake();
  const measured = row.run(options);
  const hasEnded = new AbortController();
  const tooLong = pause(secondsMax * 1_000, 'too long' as const, { signal: hasEnded.signal });
  try {
    const first = await Promise.race([measured, tooLong]);
    if (first !== 'too long') return [first].flat();
  } finally {
    tooLong.catch(() => undefined);
    hasEnded.abort();
    letSleep();
  }
  endPrograms();
  await Promise.race([measured.catch(() => undefined), pause(tidyingMsMax, undefined, { ref: false })]);
  throw new Error(`given up after ${secondsMax} s: it should take ${expectedS}`);
}

const failedSides = (table: Measured): readonly string[] =>
  'kind' in table
    ? []
    : table.skipped.filter(({ isFailure }) => isFailure).map(({ side, reason }) => `${side}: ${reason}`);

const missing = ({ name, targets }: Row, measured: readonly Verdict[], remark: string): readonly Verdict[] =>
  targets
    .filter((target) => measured.every((verdict) => verdict.target !== target))
    .map((target) => notMeasured(target, { row: name, remark }));

/** Scales the estimates by the pace of the rows so far. */
const secondsOf = ({ seconds }: Row, size: Size): number =>
  ({ ...seconds, brief: Math.min(seconds.quick, 2) })[size];

function estimate(chosen: readonly Row[], size: Size) {
  const startedMs = performance.now();
  const seconds = chosen.map((row) => secondsOf(row, size));
  const sum = (list: readonly number[]) => list.reduce((total, each) => total + each, 0);
  return {
    left: (done: number): string => {
      const expectedMs = sum(seconds.slice(0, done)) * 1_000;
      const pace = done === 0 ? 1 : (performance.now() - startedMs) / expectedMs;
      return `about ${minutes(sum(seconds.slice(done)) * 1_000 * pace)} minutes left`;
    },
  };
}

const minutes = (ms: number): string => (ms / 60_000).toFixed(1);
