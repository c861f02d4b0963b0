import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';

/** In a process of its own: what vitest makes besides would be counted. */
function leftBy(program: URL): { readonly kept: number; readonly given: number } {
  const output = execFileSync(process.execPath, ['--import', 'tsx', fileURLToPath(program)]);
  return JSON.parse(String(output));
}

it('checks that have waited leave what they are made of to the young generation', () => {
  const { kept, given } = leftBy(new URL('../support/base/waited-checks.ts', import.meta.url));
  expect(given).toBeGreaterThan(5_000_000);
  expect(kept).toBeLessThan(given / 8);
});

it('members that come to an old map and go again are left to the young generation', () => {
  const { kept, given } = leftBy(new URL('../support/base/passed-members.ts', import.meta.url));
  expect(given).toBeGreaterThan(5_000_000);
  expect(kept).toBeLessThan(given / 8);
});
