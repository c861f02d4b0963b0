import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface TemporaryFolder {
  readonly path: string;
  remove(): void;
}

/** A folder that every user may enter (an embedded PostgreSQL may run as somebody else), and its removal. */
export function temporaryFolder(): TemporaryFolder {
  const path = mkdtempSync(join(tmpdir(), 'agent-trust-test-'));
  chmodSync(path, 0o711);
  return { path, remove: () => removeFolder(path) };
}

/** Removes a folder while a program may still write to it: what it adds meanwhile takes another round. */
export function removeFolder(path: string): void {
  for (let roundsLeft = 20; ; roundsLeft--) {
    try {
      rmSync(path, { recursive: true, force: true });
      return;
    } catch (error) {
      if (roundsLeft === 0 || !(error instanceof Error && 'code' in error && error.code === 'ENOTEMPTY'))
        throw error;
    }
  }
}
