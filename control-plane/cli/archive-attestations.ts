import { createReadStream } from 'node:fs';
import { mkdir, open, rename, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { chooseEd25519 } from '../../shared/crypto/choose-ed25519.ts';
import { type Keyset, keyset, parseJwks } from '../../shared/crypto/keyset.ts';
import { limits } from '../../shared/model/limits.ts';
import { secondMs } from '../../shared/model/time.ts';
import { type ExitCode, exitCode } from '../../shared/runtime/exit-codes.ts';
import type { ArchiveAnswer, ArchivePlanAnswer } from '../../shared/wire/archive.ts';
import { type ApiAccess, CommandError, callApi, reasonOf } from './call-api.ts';
import { cliLimits } from './limits.ts';
import { type TextSink, verifyStream } from './verify-attestations.ts';

interface ArchiveOptions {
  readonly access: ApiAccess;
  /** `2026-09` */
  readonly before: string;
  readonly folder: string;
  readonly isApplied: boolean;
  readonly output: TextSink;
}

type PlannedOwner = ArchivePlanAnswer['owners'][number];

interface Plan {
  readonly owners: readonly PlannedOwner[];
  readonly records: number;
  readonly partitions: readonly string[];
  readonly hasBegun: boolean;
}

/**
 * `agent-trust attestations archive --before MONTH --to FOLDER [--apply]`: what arrived before the month, as
 * one export for each account and mode. With `--apply` the files are written, synced and verified, and hold
 * what the database counts; only then the records leave it. Killed anywhere, it goes on when it is run again:
 * a file that verifies stays, and what was begun is ended.
 */
export async function archiveCommand(options: ArchiveOptions): Promise<ExitCode> {
  const { access, before, folder, isApplied, output } = options;
  const plan = await readPlan(access, before);
  if (plan.hasBegun) output.write(`The archive before ${before} has begun: its files are verified.\n`);
  else describePlan(plan, options);
  if (!isApplied) {
    output.write(`Nothing was changed; run it with --apply to ${plan.hasBegun ? 'end it' : 'do this'}.\n`);
    return exitCode.success;
  }
  if (!plan.hasBegun) {
    if (plan.partitions.length === 0) return exitCode.success;
    await mkdir(folder, { recursive: true });
    const keys = await keysOf(access);
    for (const owner of plan.owners) await writeFile(options, owner, keys);
    await syncFolder(folder);
  }
  await drop(options, plan);
  return exitCode.success;
}

async function readPlan(access: ApiAccess, before: string): Promise<Plan> {
  const owners = new Map<string, PlannedOwner>();
  let after: number | null = 0;
  let last: ArchivePlanAnswer | null = null;
  while (after !== null) {
    const { body } = await callApi(access, 'POST', '/sync/archive/plan', { before, after });
    last = body as ArchivePlanAnswer;
    for (const each of last.owners) {
      const known = owners.get(`${each.account_id} ${each.mode}`);
      owners.set(`${each.account_id} ${each.mode}`, {
        ...each,
        chains: each.chains + (known?.chains ?? 0),
        records: each.records + (known?.records ?? 0),
      });
    }
    after = last.next;
  }
  const found = [...owners.values()];
  return {
    owners: found,
    records: found.reduce((sum, { records }) => sum + records, 0),
    partitions: last?.partitions ?? [],
    hasBegun: last?.has_begun === true,
  };
}

function describePlan({ owners, records, partitions }: Plan, { before, output }: ArchiveOptions): void {
  if (partitions.length === 0) {
    output.write(`There is no partition of records from before ${before} alone.\n`);
    return;
  }
  output.write(`before ${before}: ${records} records, in ${partitions.join(', ')}\n`);
  for (const owner of owners) {
    output.write(`  ${fileOf(owner, before)}: ${owner.records} records in ${owner.chains} chains\n`);
  }
}

const fileOf = ({ account_id, mode }: PlannedOwner, before: string): string =>
  `attestations-${account_id}-${mode}-before-${before}.jsonl`;

async function keysOf({ origin }: ApiAccess): Promise<Keyset> {
  const response = await fetch(`${origin}/.well-known/jwks.json`, {
    redirect: 'error',
    signal: AbortSignal.timeout(limits.internalCallMsMax),
  }).catch((error: unknown) => {
    throw new CommandError(`${origin} cannot be reached: ${reasonOf(error)}`);
  });
  return keyset(chooseEd25519(), parseJwks(await response.json()));
}

/** Leaves the file verified under its name, or nothing under it. */
async function writeFile(options: ArchiveOptions, owner: PlannedOwner, keys: Keyset): Promise<void> {
  const { before, folder, output } = options;
  const path = join(folder, fileOf(owner, before));
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

async function download(
  { access, before }: ArchiveOptions,
  owner: PlannedOwner,
  path: string,
): Promise<void> {
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

async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

async function drop({ access, before, output }: ArchiveOptions, plan: Plan): Promise<void> {
  const { records, owners } = plan;
  let isWaiting = false;
  for (;;) {
    const asked = { before, records, files: owners.length };
    const { body } = await callApi(access, 'POST', '/sync/archive', asked, cliLimits.archiveStepMsMax);
    const { state, marked } = body as ArchiveAnswer;
    if (state === 'done') {
      output.write(`${marked} records have left the database\n`);
      return;
    }
    if (state === 'waiting' && !isWaiting)
      output.write('waiting for exports and lists that still read them\n');
    isWaiting = state === 'waiting';
    if (isWaiting) await pause(secondMs);
  }
}
