import { expect, it } from 'vitest';
import { startFuzz } from '../support/service/fuzz.ts';

it('answers a few requests made from the document in the specified way, and keeps the database sound', async () => {
  const { succeeded, run, close } = await startFuzz();
  await run({ numRuns: 1, seed: 7 });
  expect(succeeded.size).toBeGreaterThan(0);
  await close();
});
