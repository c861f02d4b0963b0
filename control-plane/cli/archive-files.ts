import { createReadStream } from 'node:fs';
import { open, rename, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { chooseEd25519 } from '../../shared/crypto/choose-ed25519.ts';
import { type Keyset, keyset, parseJwks } from '../../shared/crypto/keyset.ts';
import { limits } from '../../shared/model/limits.ts';
import { type ApiAccess, CommandError, reasonOf } from './call-api.ts';
import { type TextSink, verifyStream } from './verify-attestations.ts';

/** Where the files of archives go. */
export interface ArchiveTarget {
  readonly access: ApiAccess;
  /** `2026-09` */
  readonly before: string;
  readonly folder: string;
  readonly output: TextSink;
}

export interface ArchivedOwner {
  readonly account_id: string;
  readonly mode: 'live' | 'test';
}

/** With what its file has to hold. */
export interface PlannedOwner extends ArchivedOwner {
  readonly chains: number;
  readonly records: number;
}

/** Of one account and mode. */
export const archiveFileOf = ({ account_id, mode }: ArchivedOwner, before: string): string =>
  `attestations-${account_id}-${mode}-before-${before}.jsonl`;

export async function keysOf({ origin }: ApiAccess): Promise<Keyset> {
  const response = await fetch(`${origin}/.well-known/jwks.json`, {
    redirect: 'error',
    signal: AbortSignal.timeout(limits.internalCallMsMax),
  }).catch((error: unknown) => {
    throw new CommandError(`${origin} cannot be reached: ${reasonOf(error)}`);
  });
  return keyset(chooseEd25519(), parseJwks(await response.json()));
}

/** Leaves the file verified under its name, or nothing under it. */
export async function writeArchive(options: ArchiveTarget, owner: PlannedOwner, keys: Keyset): Promise<void> {
  const { before, folder, output } = options;
  const path = join(folder, archiveFileOf(owner, before));
  if (await exists(path)) {
    await verifyFile(path, owner, keys, output);
    output.write(`${path} is there and verifies\n`);
    return;
  }
  const part = `${path}.part`;
  await download(options, owner, part);
  await verifyFile(part, owner, keys, output);
  await rename(part, path);
  output.write(`${path} is written and verifies\n`);
}

const exists = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  );

async function download({ access, before }: ArchiveTarget, owner: PlannedOwner, path: string): Promise<void> {
  const query = new URLSearchParams({ before, account_id: owner.account_id, mode: owner.mode });
  const failed = (error: unknown) => new CommandError(`${path} could not be written: ${reasonOf(error)}`);
  const response = await fetch(`${access.origin}/v1/sync/archive/export?${query}`, {
    headers: { authorization: `Bearer ${access.key}` },
    redirect: 'error',
  }).catch((error: unknown) => {
    throw failed(error);
  });
  if (!response.ok || response.body === null) {
    throw new CommandError(`${path}: the control plane answered ${response.status} ${await response.text()}`);
  }
  const file = await open(path, 'w', 0o600).catch((error: unknown) => {
    throw failed(error);
  });
  try {
    for await (const piece of response.body) await file.writeFile(piece);
    await file.sync();
  } catch (error) {
    throw failed(error);
  } finally {
    await file.close();
  }
}

/** By the verifier that everybody has, and against what the database counts. */
async function verifyFile(
  path: string,
  { records, chains }: PlannedOwner,
  keys: Keyset,
  errors: TextSink,
): Promise<void> {
  const verdict = await verifyStream(createReadStream(path), keys, { errors });
  if (verdict.kind === 'invalid') {
    throw new CommandError(
      `${path} does not verify, so nothing was dropped: line ${verdict.line}: ${verdict.sentence}. Remove it and run this again.`,
    );
  }
  if (verdict.records !== records || verdict.chains !== chains) {
    throw new CommandError(
      `${path} has ${verdict.records} records in ${verdict.chains} chains where the database has ${records} in ${chains}, so nothing was dropped. Remove it and run this again.`,
    );
  }
}

export async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
