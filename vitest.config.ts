import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';
import { askedLanes, endings, type Lane, lanes } from './test/lanes.ts';
import { sourcesBelow } from './test/support/base/sources.ts';
import { SecondTryReporter, secondTry } from './test/support/run/second-try.ts';
import { LongestFirst, TestRunReporter } from './test/support/run/test-run.ts';

const asked = askedLanes(process.env['LANES']);
const filesOf = (names: readonly Lane[], ending = '.test.ts') =>
  names.flatMap((lane) => lanes[lane]).map((folder) => `test/${folder}/**/*${ending}`);

const project = <Name extends string, Options>(
  name: Name,
  of: readonly Lane[],
  { ending, exclude = [], ...options }: Options & { readonly ending?: string; readonly exclude?: string[] },
) => {
  const chosen = of.filter((lane) => asked.includes(lane));
  const include = filesOf(chosen, ending);
  // The extra files of a folder belong to that lane, wherever they are.
  const hasExtra = chosen.includes('extra') && ending === undefined;
  if (hasExtra) include.push(`test/**/*${endings.extra}`);
  const left = [endings.long, ...(hasExtra ? [] : [endings.extra]), ...exclude].map((each) => `**/*${each}`);
  // A worker imports the programs once for all of its files, and not for a second or two in each.
  const test = { name, include, exclude: left, isolate: false, ...options };
  return include.length === 0 ? [] : [{ extends: true as const, test }];
};

/** What the other lanes play in a short form, in full: set `LONG` (`npm run test:long`). */
const long = () => ({
  extends: true as const,
  test: {
    name: 'long',
    include: [
      'test/property/**/*.test.ts',
      `test/**/*${endings.long}`,
      ...sourcesBelow('test')
        .filter(({ path, imports }) => path.endsWith('.test.ts') && imports.includes(formsFile))
        .map(({ path }) => path),
    ],
    testTimeout: 3_600_000,
  },
});
/** A test that imports it has a short and a long form. */
const formsFile = 'test/support/base/runs.ts';

/**
 * One more than cores, because files wait; not more than PostgreSQL has connections for, 300 in all. Files of
 * lane extra start several programs each and wait little: more of them at once only makes them late.
 */
const workersMax = Math.min(availableParallelism() + (asked.includes('extra') ? 0 : 1), 8);

export default defineConfig({
  test: {
    projects:
      process.env['LONG'] === '1'
        ? [long()]
        : [
            ...project('pure', ['pure'], { pool: 'threads' as const }),
            // One project, so that a worker goes from a file of one lane to a file of another.
            ...project('programs', ['service', 'process', 'extra'], {
              retry: secondTry,
              exclude: [endings.alone],
            }),
            ...project('alone', ['service', 'process', 'extra'], {
              retry: secondTry,
              ending: endings.alone,
              maxWorkers: 1,
              sequence: { groupOrder: 1 },
            }),
          ],
    globalSetup: ['test/support/run/global-setup.ts'],
    sequence: { sequencer: LongestFirst },
    setupFiles: ['test/support/run/count-costs.ts'],
    reporters: [new TestRunReporter(), new SecondTryReporter()],
    // Forks, not threads: what ends a process, as a native server may, must not end vitest with it.
    pool: 'forks',
    maxWorkers: workersMax,
    // Bounds for what hangs, not for what is slow: a busy machine may take ten times as long as usual.
    testTimeout: 180_000,
    hookTimeout: 300_000,
    teardownTimeout: 20_000,
  },
});
