import { readFileSync } from 'node:fs';

/**
 * On which machine, since which of its starts and in which folder an epoch is written; kept in the epoch's
 * own folder as `origin.json`.
 */
export interface EpochOrigin {
  /** Of the running kernel; null where there is no such thing. */
  readonly boot_id: string | null;
  readonly machine_id: string | null;
  /** Of the epoch's folder: a copy of it has others. */
  readonly device: number;
  readonly inode: number;
  /** Each record was on disk before its answer. */
  readonly is_synced_first: boolean;
  /** While it was written no second process could have the same spool unnoticed (see holdSpool). */
  readonly is_sole: boolean;
}

export const originFile = 'origin.json';

/**
 * Where this process runs. The two ids are those of Linux; elsewhere they are null, and nothing is certain.
 */
export const thisMachine = (): Pick<EpochOrigin, 'boot_id' | 'machine_id'> => ({
  boot_id: readId('/proc/sys/kernel/random/boot_id'),
  machine_id: readId('/etc/machine-id'),
});

/**
 * Whether every record that was answered in that epoch must be in the folder that is found now, `here`, by a
 * process that holds the spool alone. Certain are only:
 * - the same start of the same machine: what was written is in the kernel's memory, whatever became of the
 *   process, or
 * - the same machine, and records that were on disk before their answers.
 * In both cases in the very folder, because what was copied, or restored from a backup, may end earlier; the
 * process that goes on with the original may even be alive.
 */
export function isCertain(origin: EpochOrigin | null, here: Omit<EpochOrigin, 'is_synced_first'>): boolean {
  if (origin === null || !origin.is_sole || !here.is_sole) return false;
  if (origin.device !== here.device || origin.inode !== here.inode) return false;
  const isSameBoot = origin.boot_id !== null && origin.boot_id === here.boot_id;
  const isSameMachine = origin.machine_id !== null && origin.machine_id === here.machine_id;
  return isSameBoot || (origin.is_synced_first && isSameMachine);
}

/** Null for everything that was not written whole by this program. */
export function parseOrigin(text: string): EpochOrigin | null {
  try {
    const value: unknown = JSON.parse(text);
    return isOrigin(value) ? value : null;
  } catch {
    return null;
  }
}

function isOrigin(value: unknown): value is EpochOrigin {
  if (typeof value !== 'object' || value === null) return false;
  const { boot_id, machine_id, device, inode, is_synced_first, is_sole } = value as Record<string, unknown>;
  return (
    [boot_id, machine_id].every((id) => id === null || typeof id === 'string') &&
    typeof device === 'number' &&
    typeof inode === 'number' &&
    typeof is_synced_first === 'boolean' &&
    typeof is_sole === 'boolean'
  );
}

function readId(path: string): string | null {
  try {
    const id = readFileSync(path, 'utf8').trim();
    return id === '' ? null : id;
  } catch {
    return null;
  }
}
