import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Compiled, this file lies a folder deeper than its source. */
export const projectRoot = ((): string => {
  let folder = dirname(fileURLToPath(import.meta.url));
  while (!isOurs(join(folder, 'package.json'))) folder = dirname(folder);
  return folder;
})();

function isOurs(path: string): boolean {
  return existsSync(path) && JSON.parse(readFileSync(path, 'utf8')).name === 'agent-trust';
}

/** The commit that is measured, with `+ changes` where files differ from it; `unknown` outside a clone. */
export function measuredCommit(): string {
  const git = (...args: string[]) =>
    execFileSync('git', ['-C', projectRoot, ...args], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    });
  try {
    const commit = git('rev-parse', '--short', 'HEAD').trim();
    return git('status', '--porcelain').trim() === '' ? commit : `${commit} + changes`;
  } catch {
    // An unpacked archive has no git folder; a machine may have no git.
    return 'unknown';
  }
}
