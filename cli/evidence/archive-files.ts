import { randomBytes } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { open, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { chooseEd25519 } from '../../shared/crypto/choose-ed25519.ts';
import { type Keyset, keyset } from '../../shared/crypto/keyset.ts';
import { arriving } from '../base/arriving.ts';
import { type ApiAccess, CommandError, reasonOf } from '../base/call-api.ts';
import { cliLimits } from '../base/limits.ts';
import { publishFile } from '../base/publish-file.ts';
import { readText } from '../base/read-body.ts';
import type { TextSink } from '../base/text-sink.ts';
import { verifyStream } from '../verify/verify-attestations.ts';
import { fetchJwks, keysIn } from './pack-log.ts';

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

/** Of the service. Throws CommandError. */
export const keysOf = async (access: ApiAccess): Promise<Keyset> =>
  keyset(chooseEd25519(), keysIn(await fetchJwks(access)));

/**
 * Leaves the file verified under its name, or nothing under it. One that does not verify stays under a name
 * of its own, to be looked at.
 */
export async function writeArchive(options: ArchiveTarget, owner: PlannedOwner, keys: Keyset): Promise<void> {
  const { before, folder, output } = options;
  const path = join(folder, archiveFileOf(owner, before));
  if (await exists(path)) {
    await verifyFile(path, owner, keys, output);
    output.write(`${path} is there and verifies\n`);
    return;
  }
  // Of this run alone: another one could cut it short after its verification.
  const part = `${path}.${randomBytes(6).toString('hex')}.part`;
  await download(options, owner, part);
  await verifyFile(part, owner, keys, output);
  if (!(await publishFile(part, path))) {
    await rm(part);
    throw new CommandError(`${path} was written by another run meanwhile. Run this again.`);
  }
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
  const openStream = async (signal: AbortSignal) => {
    const response = await fetch(`${access.origin}/v1/sync/archive/export?${query}`, {
      headers: { authorization: `Bearer ${access.key}` },
      ...{ redirect: 'error', signal },
    });
    if (response.ok && response.body !== null) return response.body;
    const said = await readText(response, cliLimits.refusalBytesMax);
    throw new CommandError(`${path}: the control plane answered ${response.status} ${said}`);
  };
  const file = await open(path, 'wx', 0o600).catch((error: unknown) => {
    throw failed(error);
  });
  try {
    for await (const piece of arriving(openStream)) await file.writeFile(piece);
    await file.sync();
  } catch (error) {
    await rm(path, { force: true });
    throw error instanceof CommandError ? error : failed(error);
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
