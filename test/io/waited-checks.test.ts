import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';

it('checks that have waited leave what they are made of to the young generation', () => {
  const program = fileURLToPath(new URL('../support/waited-checks.ts', import.meta.url));
  const output = execFileSync(process.execPath, ['--expose-gc', '--import', 'tsx', program]);
  const { kept, given } = JSON.parse(String(output));
  expect(given).toBeGreaterThan(5_000_000);
  expect(kept).toBeLessThan(given / 8);
});
