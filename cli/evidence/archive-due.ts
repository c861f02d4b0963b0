import { type ExitCode, exitCode } from '../../shared/runtime/exit-codes.ts';
import { makeFolder } from '../../shared/runtime/make-folder.ts';
import { syncFolder } from '../../shared/runtime/sync-folder.ts';
import type {
  AccountArchiveAnswer,
  AccountArchivePlanAnswer,
  DueArchivesAnswer,
} from '../../shared/wire/evidence/archive.ts';
import { callApi } from '../base/call-api.ts';
import { cliLimits } from '../base/limits.ts';
import { type ArchiveTarget, archiveFileOf, keysOf, writeArchive } from './archive-files.ts';

interface DueOptions extends Omit<ArchiveTarget, 'before'> {
  readonly isApplied: boolean;
}

type DueAccount = DueArchivesAnswer['due'][number];

/**
 * `agent-trust attestations archive --due --to FOLDER [--apply]`: of each account what arrived before its
 * retention began, as one export. With `--apply` each file is written, synced and verified, and holds what
 * the database counts; only then the records leave it. Killed anywhere, it goes on when it is run again.
 */
export async function archiveDueCommand(options: DueOptions): Promise<ExitCode> {
  const { access, isApplied, output } = options;
  let found = 0;
  let after: DueArchivesAnswer['next'] = null;
  do {
    const { body } = await callApi(access, 'POST', '/sync/archive/due', { after });
    const page = body as DueArchivesAnswer;
    for (const each of page.due) if (await archiveAccount(options, each)) found += 1;
    after = page.next;
  } while (after !== null);
  if (found === 0) output.write('No account has records that it does not keep.\n');
  else if (!isApplied) output.write('Nothing was changed; run it with --apply to do this.\n');
  return exitCode.success;
}

/** False: there is nothing to do. */
async function archiveAccount(options: DueOptions, due: DueAccount): Promise<boolean> {
  const { access, folder, isApplied, output } = options;
  const { account_id, mode, before, has_begun: hasBegun } = due;
  const planned = hasBegun ? { chains: 0, records: 0 } : await planOf(options, due);
  if (!hasBegun && planned.records === 0) return false;
  const owner = { account_id, mode, ...planned };
  output.write(
    hasBegun
      ? `${account_id} ${mode}: the archive before ${before} has begun: its file is verified.\n`
      : `${archiveFileOf(owner, before)}: ${planned.records} records in ${planned.chains} chains\n`,
  );
  if (!isApplied) return true;
  if (!hasBegun) {
    await makeFolder(folder);
    await writeArchive({ ...options, before }, owner, await keysOf(access));
    await syncFolder(folder);
  }
  const asked = { account_id, mode, before, records: planned.records };
  for (;;) {
    const { body } = await callApi(
      access,
      'POST',
      '/sync/archive/account',
      asked,
      cliLimits.archiveStepMsMax,
    );
    const { state, marked, removed } = body as AccountArchiveAnswer;
    if (state !== 'done') continue;
    const kept = marked - removed;
    output.write(
      `${removed} records have left the database${kept === 0 ? '' : `; ${kept} stay in lists, because another account may read them`}\n`,
    );
    return true;
  }
}

async function planOf(
  { access }: DueOptions,
  { account_id, mode, before }: DueAccount,
): Promise<{ readonly chains: number; readonly records: number }> {
  const sum = { chains: 0, records: 0 };
  let after: string | null = '';
  while (after !== null) {
    const asked: Record<string, unknown> = { account_id, mode, before, after };
    const { body } = await callApi(access, 'POST', '/sync/archive/account/plan', asked);
    const page = body as AccountArchivePlanAnswer;
    sum.chains += page.chains;
    sum.records += page.records;
    after = page.next;
  }
  return sum;
}
