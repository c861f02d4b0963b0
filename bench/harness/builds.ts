import { execFileSync } from 'node:child_process';
import { chmodSync, existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { newFolder, removeFolder } from './folders.ts';

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

/** A build of this project, and what users start of it. */
export interface Build {
  readonly name: string;
  /** Path of `agent-trust`. */
  readonly command: string;
  /** Path of what `agent-trust/embedded` is in it. */
  readonly embedded: string;
}

export interface BuiltRef {
  readonly build: Build;
  remove(): void;
}

/** The commit that a branch, tag or hash names; null: git knows none. */
export function commitOf(ref: string): string | null {
  try {
    return git('rev-parse', '--verify', '--quiet', '--end-of-options', `${ref}^{commit}`).trim();
  } catch {
    return null;
  }
}

/**
 * Checks a commit out into a worktree of its own, installs what its lock file names and builds it. Throws
 * with the output of the step that failed. `remove` takes the worktree away again.
 */
export function buildOf(commit: string, say: (line: string) => void): BuiltRef {
  const folder = newFolder('ref');
  // PostgreSQL runs as a user of its own when this is run by root, and must be able to pass through.
  chmodSync(folder, 0o711);
  const root = join(folder, 'agent-trust');
  const remove = () => {
    removeFolder(folder);
    git('worktree', 'prune');
  };
  try {
    git('worktree', 'add', '--detach', root, commit);
    say(`installing the packages of ${shortened(commit)}`);
    run(root, 'npm', 'ci', '--no-audit', '--no-fund');
    say(`building ${shortened(commit)}`);
    run(root, 'npm', 'run', '--silent', 'build');
  } catch (error) {
    remove();
    throw error;
  }
  const command = join(root, 'dist', 'deploy', 'agent-trust.js');
  return { build: { name: shortened(commit), command, embedded: embeddedOf(root) }, remove };
}

/** What a service imports as `agent-trust/embedded`, of the project built in this folder. */
export const embeddedOf = (root: string): string =>
  createRequire(join(root, 'package.json')).resolve('agent-trust/embedded');

const shortened = (commit: string): string => commit.slice(0, 10);

const git = (...words: readonly string[]): string => run(projectRoot, 'git', ...words);

/** Of one step; `npm ci` takes a minute on a quiet machine. */
const stepMsMax = 900_000;

function run(folder: string, command: string, ...words: readonly string[]): string {
  return execFileSync(command, words, {
    ...{ cwd: folder, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'], timeout: stepMsMax },
  });
}
