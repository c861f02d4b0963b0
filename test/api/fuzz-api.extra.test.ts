import { expect, it } from 'vitest';
import { isLong } from '../support/base/runs.ts';
import { startFuzz } from '../support/service/fuzz.ts';
import { expectSignedCatalogs } from '../support/service/sound-database.ts';

/** Long enough for some thousand requests, short enough for every run. */
const timeMs = isLong ? 20 * 60_000 : 5_000;
/** So much longer it may take where the machine is slow. */
const moreMsMax = 180_000;

it('answers all input in the specified way, and keeps the database sound', {
  timeout: timeMs + 2 * moreMsMax,
}, async () => {
  const { api, operations, succeeded, run, close } = await startFuzz();
  // A fuzz that only ever knocks would find nothing: most operations must also have succeeded. On a slow
  // machine that takes longer.
  const enough = operations * 0.6;
  const beganAtMs = performance.now();
  const lastsMs = () => performance.now() - beganAtMs;
  while (lastsMs() < timeMs || (succeeded.size <= enough && lastsMs() < timeMs + moreMsMax)) {
    await run({ numRuns: 3 });
  }
  await expectSignedCatalogs(api);
  expect(succeeded.size, `only ${[...succeeded].join(', ')}`).toBeGreaterThan(enough);
  await close();
});
