import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import type { Row } from '../../../bench/harness/row.ts';
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
    size: 'quick',
    ...{ database: 'embedded', built: 'dist' },
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

test('the page of the bench lists every target', () => {
  const page = readFileSync(new URL('../../../bench/README.md', import.meta.url), 'utf8');
  expect(targetNames.filter((name) => !page.includes(`| ${name} |`))).toEqual([]);
});
