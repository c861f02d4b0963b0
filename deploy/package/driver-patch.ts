import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/**
 * Lines of deploy/patches/postgres+3.4.9.patch. Goes together with the patch when a release of the driver has
 * the repair.
 */
const repairs: readonly (readonly [file: string, line: string])[] = [
  ['connection.js', 'function resetWrite() {'],
  ['connection.js', 'const x = socket !== null && socket.write(chunk, fn)'],
  ['connection.js', 'const types = await typesQuery.catch(() => [])'],
  ['connection.js', 'function resetQuery() {'],
  ['connection.js', ';(query || initial || sent.length) && fail('],
  ['connection.js', '? copied(q)'],
  ['connection.js', 'return (sent.remove(q), queryError(q, error), true)'],
  ['index.js', '? q.reject(lost)'],
  ['index.js', 'function onrefused(query) {'],
  ['connection.js', '? (delete statements[query.signature], errored(errorResponse))'],
  ['index.js', "const isEager = options.startsWith('eager ')"],
  ['index.js', "if (ended.command === 'ROLLBACK')"],
];

const installedDriver = fileURLToPath(new URL('../../node_modules/postgres/src', import.meta.url));

/**
 * Throws where the driver in this folder lacks our repair (deploy/patches/README.md), with which a dying
 * connection costs a query, and without which it can end the process or give one query the answer to another.
 * `npm ci --ignore-scripts` leaves it out.
 */
export function refuseUnpatchedDriver(driver = installedDriver): void {
  if (repairs.every(([file, line]) => readFileSync(join(driver, file), 'utf8').includes(line))) return;
  throw new Error(
    `The database driver in ${driver} lacks a patch without which a lost connection can end the control plane, or mix answers up. Run: npm run dependencies`,
  );
}
