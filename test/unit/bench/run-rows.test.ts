import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import type { LatencyTable } from '../../../bench/harness/latency-table.ts';
import type { Measured, Row } from '../../../bench/harness/row.ts';
import { type RunOptions, runRows } from '../../../bench/harness/run-rows.ts';
import type { Table } from '../../../bench/harness/table.ts';
import { type TargetName, targetNames } from '../../../bench/harness/targets.ts';

const tableOf = (row: string, target: TargetName): Table => ({
  ...{ row, title: row, unit: 'requests/s', rounds: 1, secondsEach: 1, lines: [], skipped: [], notes: [] },
  judged: [{ target, figure: 1_000, disturbed: null }],
});

const rowOf = (name: string, target: TargetName, run: Row['run']): Row => ({
  ...{ name, describe: name, targets: [target], seconds: { full: 1, quick: 1 }, run },
});

interface Observed extends RunOptions {
  readonly written: string[];
  readonly said: string[];
  ended: number;
  isAwake: boolean;
}

function observed(): Observed {
  const written: string[] = [];
  const said: string[] = [];
  const options: Observed = {
    isQuick: true,
    database: 'embedded',
    say: (line: string) => void said.push(line),
    write: (row: string) => void written.push(row),
    endPrograms: () => {
      options.ended += 1;
    },
    keepAwake: () => {
      options.isAwake = true;
      return () => {
        options.isAwake = false;
      };
    },
    sharedReadNs: () => 15,
    ...{ written, said, ended: 0, isAwake: false },
  };
  return options;
}

test('a failed row is reported, its programs end, and all other rows run', async () => {
  const options = observed();
  const { verdicts, failures } = await runRows(
    [
      rowOf('first', 'P11', async () => tableOf('first', 'P11')),
      rowOf('broken', 'P6', async () => {
        throw new Error('the peer has ended\nwith a long story');
      }),
      rowOf('last', 'P13', async () => tableOf('last', 'P13')),
    ],
    options,
  );
  expect(options.written).toEqual(['first', 'last']);
  expect(failures).toEqual(['broken: the peer has ended']);
  expect(options.ended).toBe(1);
  expect(verdicts.map(({ row, target, status }) => [row, target, status])).toEqual([
    ['first', 'P11', 'missed'],
    ['broken', 'P6', 'not measured'],
    ['last', 'P13', 'beyond'],
  ]);
  expect(options.said.filter((line) => line.includes('minutes left'))).toHaveLength(3);
});

test('a target without a figure is not measured', async () => {
  const { verdicts, failures } = await runRows(
    [rowOf('skipping', 'P1', async () => ({ ...tableOf('skipping', 'P1'), judged: [] }))],
    observed(),
  );
  expect(failures).toEqual([]);
  expect(verdicts).toMatchObject([{ target: 'P1', figure: null, status: 'not measured' }]);
});

test('a row of waiting times is judged by the shared cache before and after it', async () => {
  const reads = [20, 160];
  const waiting: LatencyTable = {
    ...{ kind: 'latency', row: 'waiting', title: 'waiting', lines: [], plans: [], notes: [] },
    judged: [{ target: 'P15', figure: 9, disturbed: null }],
  };
  const tables: Measured[] = [];
  const { verdicts } = await runRows([rowOf('waiting', 'P15', async () => waiting)], {
    ...observed(),
    write: (_, measured) => void tables.push(...measured),
    sharedReadNs: () => reads.shift() ?? Number.NaN,
  });
  expect(tables).toEqual([{ ...waiting, sharedReadNs: { before: 20, after: 160 } }]);
  expect(verdicts).toMatchObject([{ status: 'not judged', remark: 'there was no room in the shared cache' }]);
});

test('cores stay awake during a row, unless the row lets them sleep', async () => {
  const options = observed();
  const seen: boolean[] = [];
  const run = async () => {
    seen.push(options.isAwake);
    return tableOf('any', 'P11');
  };
  const failing = async () => {
    seen.push(options.isAwake);
    throw new Error('it fails');
  };
  await runRows(
    [
      rowOf('usual', 'P11', run),
      { ...rowOf('alone', 'P11', run), mayCoresSleep: true },
      rowOf('failing', 'P11', failing),
    ],
    options,
  );
  expect(seen).toEqual([true, false, true]);
  expect(options.isAwake).toBe(false);
});

test('the page of the bench lists every target', () => {
  const page = readFileSync(new URL('../../../bench/README.md', import.meta.url), 'utf8');
  expect(targetNames.filter((name) => !page.includes(`| ${name} |`))).toEqual([]);
});
