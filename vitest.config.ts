import { defineConfig } from 'vitest/config';

/** The folders below `test` of each lane. CONTRIBUTING.md says what the tests of a lane may use. */
export const lanes = {
  pure: ['unit', 'property', 'pii'],
  service: ['api', 'database'],
  process: ['clients', 'console', 'contract', 'e2e', 'faults', 'io', 'upgrade'],
} as const;

const filesIn = (folders: readonly string[]) => folders.map((folder) => `test/${folder}/**/*.test.ts`);

const pure = {
  extends: true as const,
  test: {
    name: 'pure',
    include: filesIn(lanes.pure),
    pool: 'threads' as const,
    isolate: false,
    sequence: { groupOrder: 1 },
  },
};
const service = {
  extends: true as const,
  test: {
    name: 'service',
    include: filesIn(lanes.service),
    // A worker imports the programs once for all of its files, and not for a second or two in each. The other
    // lanes do the same.
    isolate: false,
    sequence: { groupOrder: 2 },
  },
};
const processes = {
  extends: true as const,
  test: {
    name: 'process',
    include: filesIn(lanes.process),
    isolate: false,
    sequence: { groupOrder: 3 },
  },
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

export default defineConfig({
  test: {
    projects: process.env['LONG'] === '1' ? [long] : [pure, service, processes],
    globalSetup: ['test/support/global-setup.ts'],
    // Forks, not threads: what ends a process, as a native server may, must not end vitest with it.
    pool: 'forks',
    maxWorkers: 2,
    // Bounds for what hangs, not for what is slow: a busy machine may take ten times as long as usual.
    testTimeout: 180_000,
    hookTimeout: 300_000,
    teardownTimeout: 20_000,
  },
});
