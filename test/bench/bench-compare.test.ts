import { describe, expect, it } from 'vitest';
import { compare, comparedFigures, comparedLine } from '../../bench/compare.ts';
import { commitOf } from '../../bench/harness/builds.ts';

const figure = (perCpuSecond: number) => ({ perCpuSecond, perSecond: 1, coresBusy: 1, sharedReadNs: 10 });
const builds = [{ name: 'this' }, { name: 'that' }] as const;

describe('two builds compared', () => {
  it('are a ratio of rounds with its interval', () => {
    const figures = new Map([
      ['this', [980, 1_078, 990, 1_000, 970, 1_010].map(figure)],
      ['that', [1_000, 1_100, 1_000, 1_000, 1_000, 1_000].map(figure)],
    ]);

    expect(comparedLine({ name: 'warm', unit: 'decisions' }, builds, figures)).toBe(
      '| warm | **0.985** | 0.970 to 1.010 | 0.020 | 995 decisions | 1.000 | 6 |\n',
    );
  });

  it('name the turns before which others had taken the shared cache', () => {
    const figures = new Map([
      ['this', [{ ...figure(1_000), sharedReadNs: 160 }, figure(1_000)]],
      ['that', [figure(1_000), figure(1_000)]],
    ]);

    expect(comparedLine({ name: 'warm', unit: 'decisions' }, builds, figures)).toContain(
      '| 2; no room in the shared cache before 1 of 4 turns |',
    );
  });

  it.each([
    { words: [], says: /compare needs a commit/ },
    { words: ['no-such-ref'], says: /git knows no commit no-such-ref/ },
    { words: ['HEAD', 'warn'], says: /no row named warn/ },
    { words: ['HEAD', '--precision', 'high'], says: /--precision takes a share/ },
    { words: ['HEAD', '--precision'], says: /--precision takes a share/ },
    // A word that git would take for an option.
    { words: ['--all'], says: /git knows no commit --all/ },
  ])('are refused as $words', async ({ words, says }) => {
    const said: string[] = [];
    const say = (line: string) => void said.push(line);

    expect(await compare(words, { say, print: say })).toBe(2);
    expect(said.join('\n')).toMatch(says);
  });

  it('are commits that git knows', () => {
    expect(commitOf('HEAD')).toMatch(/^[0-9a-f]{40}$/);
    expect(commitOf('HEAD^{tree}')).toBeNull();
  });
});

describe('rounds of two builds', () => {
  /** Each start takes so long and gives four rounds, whose ratios lie this far around 1. */
  const compared = async (of: { startMs: number; spread: number; size?: 'quick' }) => {
    let now = 0;
    const orders: string[] = [];
    const measureStart = async (order: readonly { readonly name: string }[]) => {
      now += of.startMs;
      orders.push(order.map(({ name }) => name).join(' '));
      const own = [1 - of.spread, 1 + of.spread, 1 - of.spread, 1 + of.spread];
      return new Map([
        ['this', own.map((part) => figure(1_000 * part))],
        ['that', own.map(() => figure(1_000))],
      ]);
    };
    const figures = await comparedFigures(builds, measureStart, {
      ...{ precision: 0.02, size: of.size ?? 'full', say: () => undefined, nowMs: () => now },
    });
    return { orders, rounds: figures.get('this')?.length };
  };

  it('come from three starts in turns where these are precise enough', async () => {
    expect(await compared({ startMs: 1_000, spread: 0.01 })).toEqual({
      orders: ['this that', 'that this', 'this that'],
      rounds: 12,
    });
  });

  it('come from more starts until they are, for four minutes at most', async () => {
    expect((await compared({ startMs: 30_000, spread: 0.05 })).orders).toHaveLength(8);
    expect((await compared({ startMs: 90_000, spread: 0.05 })).orders).toHaveLength(3);
  });

  it('come from one start for a look', async () => {
    expect((await compared({ startMs: 1_000, spread: 0.05, size: 'quick' })).rounds).toBe(4);
  });
});
