import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { projectRoot } from '../harness/builds.ts';

/**
 * From the project's root. Peers that come from npm have a folder of their own, so that `npm ci` of the
 * project does not grow by 117 MB.
 */
const folder = join('bench', 'peers', 'packages');

/** Not `npm ci`: it refuses a lock that leaves out what a package has for other systems, as cerbos has. */
const installing = `npm install --no-save --ignore-scripts --prefix ${folder}`;

/** Minutes for 50 MB from the registry; then there is no network. */
const installMsMax = 180_000;

/** Why a brief run has no peers. */
export const leftOut = 'a brief run has its own sides alone';

let isTried = false;

/**
 * The folder of a package, installed now where it is not there yet. A text: it cannot be had, and what would
 * install it.
 */
export function peerPackage(name: string, say: (line: string) => void): { path: string } | string {
  const path = join(projectRoot, folder, 'node_modules', name);
  if (!existsSync(path) && !isTried) {
    isTried = true;
    say(`installing the peers from npm: ${installing}`);
    try {
      execFileSync('/bin/sh', ['-c', installing], {
        ...{ cwd: projectRoot, stdio: 'ignore', timeout: installMsMax },
      });
    } catch {
      // The caller names what is missing.
    }
  }
  return existsSync(path) ? { path } : `${name} is not installed (${installing}).`;
}
