import { appendFile, open, readdir, readFile, rename, rm, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import type { RecordForm } from '../../shared/model/attestation.ts';
import type { VerificationKey } from '../../shared/model/signing-key.ts';
import { makeFolder } from '../../shared/runtime/make-folder.ts';
import { hasCode } from '../../shared/runtime/system-error.ts';
import type { SealedEntry, SignedSnapshot } from '../../shared/wire/sync/sync-schema.ts';
import {
  parseSealedEntry,
  parseSignedSnapshot,
  parseSigningKeys,
} from '../../shared/wire/sync/sync-schema.ts';

/**
 * The last known state on disk, for a start while the control plane is away:
 *
 *     sync-keys.json          the sync keys that are trusted; those of the first snapshot ever, then what
 *                             they vouched for
 *     snapshot.json           the last snapshot as it came, signed
 *     changes-<name>.jsonl    the entries applied since, signed; <name> ties them to their snapshot
 *     record-form             the form of records that the control plane last asked for
 *
 * The reader verifies: being in this file proves nothing. The snapshot is replaced by a rename, so
 * that there is always a whole one, and its changes start in a file of their own, so that they never follow
 * another. One process at a time; calls do not overlap.
 */
export interface SnapshotFile {
  readonly directory: string;
  readTrustedKeys(): Promise<readonly VerificationKey[]>;
  writeTrustedKeys(keys: readonly VerificationKey[]): Promise<void>;
  /** 1 where nothing says more, and where it cannot be read. */
  readRecordForm(): Promise<RecordForm>;
  writeRecordForm(form: RecordForm): Promise<void>;
  /** Null: none, or not a signed snapshot. A torn last entry is cut off. */
  load(): Promise<{ readonly signed: SignedSnapshot; readonly entries: readonly SealedEntry[] } | null>;
  replace(signed: SignedSnapshot): Promise<void>;
  /** Appends to the snapshot loaded or written last. From then on they survive the end of the process. */
  append(entries: readonly SealedEntry[]): Promise<void>;
  /** Resolves when what was appended would survive a power cut. */
  sync(): Promise<void>;
}

/** The trusted keys cannot be read. Trusting the next snapshot's keys instead would defeat pinning. */
export class TrustedKeysError extends Error {
  override readonly name = 'TrustedKeysError';
}

/** Owner only: it contains hashes of API keys. */
const fileMode = 0o600;

export function snapshotFile(directory: string): SnapshotFile {
  const keysPath = join(directory, 'sync-keys.json');
  const snapshotPath = join(directory, 'snapshot.json');
  const formPath = join(directory, 'record-form');
  /** A signature is unique, and base64url is valid in a file name. */
  const changesName = ({ signatures }: SignedSnapshot) =>
    `changes-${signatures[0]?.signature.slice(0, 22)}.jsonl`;
  let changesPath: string | null = null;
  let isNew = false;

  return {
    directory,
    readTrustedKeys: async () => {
      const text = await readIfThere(keysPath);
      if (text === null) return [];
      const keys = parseSigningKeys(text);
      if (keys !== null) return keys;
      throw new TrustedKeysError(
        `${keysPath} is damaged. If nobody has tampered with it, remove it: the sidecar then fetches the keys from the service and trusts them.`,
      );
    },
    writeTrustedKeys: (keys) => writeWhole(directory, keysPath, JSON.stringify(keys)),
    // Of little weight, so no start fails for it: every control plane takes form 1.
    readRecordForm: async () => ((await readIfThere(formPath).catch(() => null)) === '2' ? 2 : 1),
    writeRecordForm: (form) => writeWhole(directory, formPath, String(form)),
    load: async () => {
      const signed = parseSignedSnapshot((await readIfThere(snapshotPath)) ?? '');
      if (signed === null) return null;
      changesPath = join(directory, changesName(signed));
      return { signed, entries: await readEntries(changesPath) };
    },
    replace: async (signed) => {
      await writeWhole(directory, snapshotPath, JSON.stringify(signed));
      changesPath = join(directory, changesName(signed));
      isNew = true;
      await removeOtherChanges(directory, changesName(signed));
    },
    append: async (entries) => {
      if (changesPath === null) return;
      const lines = entries.map((entry) => `${JSON.stringify(entry)}\n`).join('');
      await appendFile(changesPath, lines, { mode: fileMode });
    },
    sync: async () => {
      if (changesPath === null) return;
      const isThere = await syncIfThere(changesPath);
      if (isThere && isNew) await syncIfThere(directory);
      isNew &&= !isThere;
    },
  };
}

async function syncIfThere(path: string): Promise<boolean> {
  const file = await open(path, 'r').catch((error: unknown) => {
    if (hasCode(error, 'ENOENT')) return null;
    throw error;
  });
  await file?.sync().finally(() => file.close());
  return file !== null;
}

async function readIfThere(path: string): Promise<string | null> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return null;
    throw error;
  }
}

/**
 * All whole lines before the first broken one. Truncates the file there, so that appended lines can be read.
 */
async function readEntries(path: string): Promise<SealedEntry[]> {
  const text = await readIfThere(path);
  if (text === null) return [];
  const entries: SealedEntry[] = [];
  let good = 0;
  for (let end = text.indexOf('\n'); end !== -1; end = text.indexOf('\n', good)) {
    const entry = parseSealedEntry(text.slice(good, end));
    if (entry === null) break;
    entries.push(entry);
    good = end + 1;
  }
  if (good < text.length) await truncate(path, Buffer.byteLength(text.slice(0, good)));
  return entries;
}

/** Atomic and durable: after a power loss the file has the old text or the new one. */
async function writeWhole(directory: string, path: string, text: string): Promise<void> {
  await makeFolder(directory);
  const temporary = `${path}.new`;
  const file = await open(temporary, 'w', fileMode);
  try {
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(temporary, path);
  await syncIfThere(directory);
}

async function removeOtherChanges(directory: string, current: string): Promise<void> {
  for (const name of await readdir(directory)) {
    if (name.startsWith('changes-') && name !== current) await rm(join(directory, name), { force: true });
  }
}
