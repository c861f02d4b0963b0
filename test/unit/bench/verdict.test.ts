import { describe, expect, it } from 'vitest';
import { type Table, tableLine } from '../../../bench/table.ts';
import { verdictsOf } from '../../../bench/verdict.ts';

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

  it('is not given where the other side did not have its core, which makes ours too good', () => {
    expect(statusOf({ perSecond: 0.6 }, { perSecond: 1, coresBusy: 0.8 })).toBe('not judged');
  });

  it('is given where ours did not have its core and is good enough all the same', () => {
    expect(statusOf({ perSecond: 0.6, coresBusy: 0.8 }, { perSecond: 1 })).toBe('met');
    expect(statusOf({ perSecond: 0.4, coresBusy: 0.8 }, { perSecond: 1 })).toBe('not judged');
  });

  it('is given at a fixed load, which no side needs a whole core for', () => {
    const idle = { perSecond: 1, coresBusy: 0.2 };
    expect(statusOf({ ...idle, perSecond: 0.4 }, idle, { isLoadFixed: true })).toBe('missed');
  });

  it('is not given where there was no room in the cache that all cores share', () => {
    for (const perSecond of [0.4, 0.6]) {
      expect(statusOf({ perSecond, sharedReadNs: 160 }, { perSecond: 1, sharedReadNs: 90 })).toBe(
        'not judged',
      );
    }
  });
});
