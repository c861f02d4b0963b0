import { describe, expect, it } from 'vitest';
import { type LatencyTable, latencyMarkdown } from '../../../bench/harness/latency-table.ts';
import { type Table, tableLine } from '../../../bench/harness/table.ts';
import { verdictsOf } from '../../../bench/harness/verdict.ts';

interface State {
  readonly perSecond: number;
  readonly coresBusy?: number;
  readonly sharedReadNs?: number;
}

/** Row `warm` with this service and a bare server, of which P2 wants half. */
function tableOf(ours: State, bare: State, more: Pick<Table, 'isLoadFixed'> = {}): Table {
  const figure = ({ perSecond, coresBusy = 1, sharedReadNs = 15 }: State) => [
    { perSecond, perCpuSecond: perSecond, coresBusy, sharedReadNs },
  ];
  const figures = new Map([
    ['ours', figure(ours)],
    ['bare', figure(bare)],
  ]);
  const side = { does: '', doesNot: '' };
  return {
    ...{ row: 'warm', title: '', unit: '', rounds: 1, secondsEach: 1, skipped: [], notes: [] },
    ...more,
    lines: [
      tableLine({ ...side, name: 'ours', target: null }, figures, 'ours'),
      tableLine({ ...side, name: 'bare', target: { name: 'P2', wanted: 0.5 } }, figures, 'ours'),
    ],
  };
}

const statusOf = (...of: Parameters<typeof tableOf>): string =>
  verdictsOf(tableOf(...of))
    .map(({ status }) => status)
    .join();

describe('the verdict on a ratio', () => {
  it.each([
    [0.4, 'missed'],
    [0.5, 'met'],
    [0.7, 'beyond'],
  ])('%d is %s where nothing disturbed it', (perSecond, status) => {
    expect(statusOf({ perSecond }, { perSecond: 1 })).toBe(status);
  });

  it('is not given where the other side lacked its core, so that the ratio is too good', () => {
    expect(statusOf({ perSecond: 0.6 }, { perSecond: 1, coresBusy: 0.8 })).toBe('not judged');
  });

  it('is given at a fixed load, which needs no whole core', () => {
    const idle = { perSecond: 1, coresBusy: 0.2 };
    expect(statusOf({ ...idle, perSecond: 0.4 }, idle, { isLoadFixed: true })).toBe('missed');
  });

  it('is not given without room in the shared cache', () => {
    for (const perSecond of [0.4, 0.6]) {
      expect(statusOf({ perSecond, sharedReadNs: 160 }, { perSecond: 1, sharedReadNs: 90 })).toBe(
        'not judged',
      );
    }
  });
});

describe('the verdict on waiting times', () => {
  const line = { requests: 100, p50Ms: 1, maxMs: 90, remark: '' };
  const tableOf = (
    p99Ms: number,
    state: Pick<LatencyTable, 'sharedReadNs' | 'floor'> = {},
  ): LatencyTable => ({
    ...{ kind: 'latency', row: 'discover', title: '', plans: [], notes: [], ...state },
    lines: [{ ...line, what: 'all questions', p99Ms, target: { name: 'P18', p99MsMax: 20 } }],
  });
  const floor = { ...line, what: 'nothing', p99Ms: 8, target: null };

  it.each<[string, LatencyTable, string, string]>([
    ['long ones', tableOf(21), 'missed', 'P18: 20 **missed** |'],
    [
      'long ones where an answer without work is late',
      tableOf(21, { floor }),
      'not judged',
      'P18: 20 not judged: an answer without work took as long |',
    ],
    [
      'long ones without room in the shared cache before or after',
      tableOf(21, { sharedReadNs: { before: 20, after: 130 } }),
      'not judged',
      'P18: 20 not judged: there was no room in the shared cache |',
    ],
    [
      'short ones on a disturbed machine',
      tableOf(19, { floor, sharedReadNs: { before: 150, after: 130 } }),
      'met',
      'P18: 20 met |',
    ],
  ])('of %s is the same on its page and in the summary', (_, table, status, cell) => {
    expect(verdictsOf(table)).toMatchObject([{ target: 'P18', figure: table.lines[0]?.p99Ms, status }]);
    expect(latencyMarkdown(table)).toContain(cell);
  });
});
