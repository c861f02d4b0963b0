import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    // Forks, not threads: a native server or a stray throw in one file must not take the others with it.
    pool: 'forks',
    // Most files wait for processes and databases more than they compute: one more worker than vitest takes
    // on two cores.
    maxWorkers: 2,
    include: ['test/**/*.test.ts'],
    globalSetup: ['test/support/global-setup.ts'],
    // Bounds for what hangs, not for what is slow: a busy machine may take ten times as long as usual, and so
    // does a property that is tried a hundred times as often.
    testTimeout: process.env['LONG'] === '1' ? 3_600_000 : 180_000,
    hookTimeout: 300_000,
    teardownTimeout: 20_000,
  },
});
