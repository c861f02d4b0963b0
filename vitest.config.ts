import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';
import { askedLanes, type Lane, lanes } from './test/lanes.ts';
import { DurationsReporter, LongestFirst } from './test/support/durations.ts';
import { SecondTryReporter, secondTry } from './test/support/second-try.ts';

const asked = askedLanes(process.env['LANES']);
/** What judges time or memory runs alone, after all others: what runs beside it would be judged with it. */
const aloneEnding = '.alone.test.ts';
const filesOf = (names: readonly Lane[], ending = '.test.ts') =>
  names.flatMap((lane) => lanes[lane]).map((folder) => `test/${folder}/**/*${ending}`);

const project = <Name extends string, Options>(
  name: Name,
  of: readonly Lane[],
  { ending, ...options }: Options & { readonly ending?: string },
) => {
  const include = filesOf(
    of.filter((lane) => asked.includes(lane)),
    ending,
  );
  // A worker imports the programs once for all of its files, and not for a second or two in each.
  const test = { name, include, isolate: false, ...options };
  return include.length === 0 ? [] : [{ extends: true as const, test }];
};

/** What the other lanes play in a short form, in full: set `LONG` (`npm run test:long`). */
const long = {
  extends: true as const,
  test: {
    name: 'long',
    include: ['test/property/**/*.test.ts', 'test/**/*.long.test.ts'],
    testTimeout: 3_600_000,
  },
};

/**
 * One more than cores, because files wait; not more than PostgreSQL has connections for, 300 in all. Files of
 * lane extra start several programs each and wait little: more of them at once only makes them late.
 */
const workersMax = Math.min(availableParallelism() + (asked.includes('extra') ? 0 : 1), 8);

export default defineConfig({
  test: {
    projects:
      process.env['LONG'] === '1'
        ? [long]
        : [
            ...project('pure', ['pure'], { pool: 'threads' as const }),
            // One project, so that a worker goes from a file of one lane to a file of another.
            ...project('programs', ['service', 'process', 'extra'], {
              retry: secondTry,
              exclude: [`**/*${aloneEnding}`],
            }),
            ...project('alone', ['service', 'process', 'extra'], {
              retry: secondTry,
              ending: aloneEnding,
              maxWorkers: 1,
              sequence: { groupOrder: 1 },
            }),
          ],
    globalSetup: ['test/support/global-setup.ts'],
    sequence: { sequencer: LongestFirst },
    reporters: [
      'default',
      new SecondTryReporter(),
      ...(process.env['DURATIONS'] === '1' ? [new DurationsReporter()] : []),
    ],
    // Forks, not threads: what ends a process, as a native server may, must not end vitest with it.
    pool: 'forks',
    maxWorkers: workersMax,
    // Bounds for what hangs, not for what is slow: a busy machine may take ten times as long as usual.
    testTimeout: 180_000,
    hookTimeout: 300_000,
    teardownTimeout: 20_000,
  },
});
