import { setTimeout as pause } from 'node:timers/promises';
import { secondMs } from '../../shared/model/time.ts';
import { type ExitCode, exitCode } from '../../shared/runtime/exit-codes.ts';
import { makeFolder } from '../../shared/runtime/make-folder.ts';
import { syncFolder } from '../../shared/runtime/sync-folder.ts';
import type { ArchiveAnswer, ArchivePlanAnswer } from '../../shared/wire/evidence/archive.ts';
import { type ApiAccess, callApi } from '../base/call-api.ts';
import { cliLimits } from '../base/limits.ts';
import {
  type ArchiveTarget,
  archiveFileOf,
  keysOf,
  type PlannedOwner,
  writeArchive,
} from './archive-files.ts';

interface ArchiveOptions extends ArchiveTarget {
  readonly isApplied: boolean;
}

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
    await makeFolder(folder);
    const keys = await keysOf(access);
    for (const owner of plan.owners) await writeArchive(options, owner, keys);
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
    output.write(`  ${archiveFileOf(owner, before)}: ${owner.records} records in ${owner.chains} chains\n`);
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
