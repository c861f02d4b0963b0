import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Of this run, not removed yet. */
const folders = new Set<string>();

/**
 * A new empty folder, which this process removes when it ends at the latest: a run that is stopped ends
 * without the `finally` of its row, and a database is a gigabyte in the largest ones. Only what is killed
 * with SIGKILL leaves its folders behind. `under`: default the system's folder for temporary files.
 */
export function newFolder(name: string, under: string = tmpdir()): string {
  const folder = mkdtempSync(join(under, `agent-trust-bench-${name}-`));
  if (folders.size === 0) process.once('exit', removeFolders);
  folders.add(folder);
  return folder;
}

export function removeFolder(folder: string): void {
  // Programs that were just ended may still write for a moment, above all a database.
  rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  folders.delete(folder);
  if (folders.size === 0) process.off('exit', removeFolders);
}

function removeFolders(): void {
  for (const folder of folders) removeFolder(folder);
}
