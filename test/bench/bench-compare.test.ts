import { describe, expect, it } from 'vitest';
import { compare, comparedLine } from '../../bench/compare.ts';
import { commitOf } from '../../bench/harness/builds.ts';

const figure = (perCpuSecond: number) => ({ perCpuSecond, perSecond: 1, coresBusy: 1, sharedReadNs: 10 });

describe('two builds compared', () => {
  it('are a ratio of rounds with its interval', () => {
    const figures = new Map([
      ['this', [980, 1_078, 990, 1_000, 970, 1_010].map(figure)],
      ['that', [1_000, 1_100, 1_000, 1_000, 1_000, 1_000].map(figure)],
    ]);

    expect(
      comparedLine({ name: 'warm', unit: 'decisions' }, [{ name: 'this' }, { name: 'that' }], figures),
    ).toBe('| warm | **0.985** | 0.970 to 1.010 | 0.020 | 995 decisions | 1.000 |\n');
  });

  it.each([
    { words: [], says: /compare <ref>/ },
    { words: ['no-such-ref'], says: /git knows no commit no-such-ref/ },
    { words: ['HEAD', 'warn'], says: /no row named warn/ },
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
