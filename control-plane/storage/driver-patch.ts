import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { StartError } from '../../shared/runtime/start-error.ts';

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

/**
 * Throws StartError where the installed driver lacks our repair (deploy/patches/README.md), with which a
 * dying connection costs a query, and without which it can end the process or give one query the answer to
 * another. An installation loses it silently: with `--ignore-scripts`, or as a dependency of another package,
 * where the script that applies it finds no driver in its own folder.
 */
export function refuseUnpatchedDriver(): void {
  // Where the file lies that `import 'postgres'` loads.
  const driver = dirname(fileURLToPath(import.meta.resolve('postgres')));
  if (repairs.every(([file, line]) => readFileSync(join(driver, file), 'utf8').includes(line))) return;
  const installation = driver.slice(0, driver.lastIndexOf('/node_modules/'));
  throw new StartError(
    `The database driver in ${driver} lacks a patch without which a lost connection can end this program, or mix answers up. ` +
      `In ${installation}, run: npx patch-package --patch-dir ${relative(installation, patchesFolder())}`,
  );
}

/** In the package that this file belongs to, wherever it was compiled to. */
function patchesFolder(): string {
  const here = dirname(fileURLToPath(import.meta.url));
  for (let folder = here; folder !== dirname(folder); folder = dirname(folder)) {
    if (existsSync(join(folder, 'package.json'))) return join(folder, 'deploy/patches');
  }
  return 'deploy/patches';
}
