import { readFileSync } from 'node:fs';

/**
 * The machine, its boot and the folder in which an epoch is written. Stored in the epoch's folder as
 * `origin.json`.
 */
export interface EpochOrigin {
  /** Of the running kernel; null on systems without one. */
  readonly boot_id: string | null;
  readonly machine_id: string | null;
  /** Of the epoch's folder; a copy of the folder differs. */
  readonly device: number;
  readonly inode: number;
  /** Each record was on disk before its answer. */
  readonly is_synced_first: boolean;
  /** No second process could use the same spool unnoticed (see holdSpool). */
  readonly is_sole: boolean;
}

export const originFile = 'origin.json';

/** Where this process runs. Only Linux has these ids; elsewhere they are null, and no epoch is certain. */
export const thisMachine = (): Pick<EpochOrigin, 'boot_id' | 'machine_id'> => ({
  boot_id: readId('/proc/sys/kernel/random/boot_id'),
  machine_id: readId('/etc/machine-id'),
});

/**
 * Whether every answered record of that epoch must be in the folder found `here`. Both its writer and this
 * process must hold the spool alone, and either of these must be true:
 * - the same boot of the same machine: the kernel keeps written records even if the process dies
 * - the same machine, with records on disk before their answers
 * It must also be the original folder: a copy, or a restored backup, may end earlier, and a process may even
 * still be writing to the original.
 */
export function isCertain(origin: EpochOrigin | null, here: Omit<EpochOrigin, 'is_synced_first'>): boolean {
  if (origin === null || !origin.is_sole || !here.is_sole) return false;
  if (origin.device !== here.device || origin.inode !== here.inode) return false;
  const isSameBoot = origin.boot_id !== null && origin.boot_id === here.boot_id;
  const isSameMachine = origin.machine_id !== null && origin.machine_id === here.machine_id;
  return isSameBoot || (origin.is_synced_first && isSameMachine);
}

/** Null unless the text is a complete origin. */
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
