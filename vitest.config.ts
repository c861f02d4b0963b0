import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    // Forks, not threads: a native server or a stray throw in one file must not take the others with it.
    pool: 'forks',
    // Most files wait for processes and databases more than they compute: one more worker than vitest takes on two cores.
    maxWorkers: 2,
    include: ['test/**/*.test.ts'],
    globalSetup: ['test/support/global-setup.ts'],
    testTimeout: 30_000,
    hookTimeout: 60_000,
    teardownTimeout: 20_000,
  },
});
