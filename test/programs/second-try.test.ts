import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { stripVTControlCharacters } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { removeFolder } from '../support/base/temporary-folder.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const tests = `
import { describe, expect, it } from 'vitest';
const tries = {};
const tried = (name) => (tries[name] = (tries[name] ?? 0) + 1);
describe('a test that', () => {
  it('passes', () => { expect(tried('passes')).toBe(1); });
  it('fails once', () => { expect(tried('once'), 'what it was').toBe(2); });
  it('fails twice', () => { expect(tried('twice')).toBe(3); });
  it('fails once, and names a seed', () => { expect(tried('seed'), 'line\\n{ seed: 7 }').toBe(2); });
});
`;

let folder: string;
beforeAll(() => {
  mkdirSync(join(root, '.build'), { recursive: true });
  // Below the root, where an import of vitest finds it.
  folder = mkdtempSync(join(root, '.build/second-try-'));
  const support = join(root, 'test/support/run/second-try.ts');
  writeFileSync(
    join(folder, 'vitest.config.ts'),
    `import { SecondTryReporter, secondTry } from ${JSON.stringify(support)};
export default { test: { retry: secondTry, reporters: ['default', new SecondTryReporter()], pool: 'forks' } };`,
  );
  writeFileSync(join(folder, 'some.test.js'), tests);
});
afterAll(() => removeFolder(folder));

const run = (...args: string[]): Promise<{ code: number; output: string }> =>
  new Promise((resolve) => {
    const command = [join(root, 'node_modules/vitest/vitest.mjs'), 'run', '--root', folder, ...args];
    const { FORCE_COLOR: _, VITEST: __, ...env } = process.env;
    execFile(process.execPath, command, { env }, (error, stdout, stderr) =>
      resolve({
        code: error === null ? 0 : Number(error.code),
        output: stripVTControlCharacters(stdout + stderr),
      }),
    );
  });

describe('a test of real programs', () => {
  it('passes at a second try, is named at the end, and shows its first error', async () => {
    const { code, output } = await run('-t', 'passes|once$');
    expect(output).toContain('2 passed');
    expect(code).toBe(0);
    const end = output.slice(output.indexOf('1 test passed only at a second try'));
    expect(end).toContain('some.test.js > a test that > fails once');
    expect(end).toContain('AssertionError: what it was: expected 1 to be 2');
    expect(end).not.toContain('> passes');
  });

  it('fails where it fails twice', async () => {
    const { code, output } = await run('-t', 'fails twice');
    expect(output).toContain('expected 2 to be 3');
    expect(output).not.toContain('only at a second try');
    expect(code).toBe(1);
  });

  it('gets none where its error names a seed', async () => {
    const { code, output } = await run('-t', 'names a seed');
    expect(output).toContain('expected 1 to be 2');
    expect(output).not.toContain('expected 2');
    expect(code).toBe(1);
  });

  it('gets none with --retry=0', async () => {
    const { code } = await run('-t', 'once$', '--retry=0');
    expect(code).toBe(1);
  });
});
