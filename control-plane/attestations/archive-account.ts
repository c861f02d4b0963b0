import { ApiError } from '../../shared/errors/api-error.ts';
import type { ChainId } from '../../shared/model/attestation.ts';
import type { Owner } from '../../shared/model/owner.ts';
import { appendAuditEntry } from '../audit/append-entry.ts';
import { historyOf } from '../history/history.ts';
import type { Caller } from '../http/caller.ts';
import {
  beginAccountArchive,
  endAccountArchive,
  lockAccountArchive,
  markAccountParts,
  openAccountArchive,
  removeArchived,
} from './account-archive-store.ts';
import { refuseBeside, refuseEarly, renderMonth } from './archive-records.ts';
import { lockBeginnings, openArchive, type RecordMonth, readWholeParts } from './archive-store.ts';
import type { AppendingDeps } from './deps.ts';
import { isDueBefore } from './retention-store.ts';

/**
 * Records that an account no longer keeps leave the database for a file of its own, in the steps of
 * `archive-records.ts`. Partitions are shared by all accounts, so rows are removed in place of partitions:
 *
 *     planned ──file written and verified──> begun ──chain by chain──> marked ──rows removed: done
 */

/** What an archive before this month would hold of the owner, a bounded number of chains at a time. */
export async function planAccountArchive(
  { sql }: Pick<AppendingDeps, 'sql'>,
  owner: Owner,
  { before, after }: { readonly before: RecordMonth; readonly after: ChainId | '' },
): Promise<{ readonly chains: number; readonly records: number; readonly next: ChainId | null }> {
  await refuseEarly(sql, before);
  const { parts, records, last } = await sql.begin((tx) => readWholeParts(tx, { before, after, owner }));
  return { chains: parts.length, records, next: last?.chainId ?? null };
}

export interface AccountArchiveProgress {
  readonly state: 'marking' | 'removing' | 'done';
  readonly marked: number;
  readonly removed: number;
}

/** Begins the archive, whose file holds so many records, or does its next step. */
export async function continueAccountArchive(
  deps: AppendingDeps,
  caller: Caller,
  {
    owner,
    before,
    records,
  }: { readonly owner: Owner; readonly before: RecordMonth; readonly records: number },
): Promise<AccountArchiveProgress> {
  const { sql, clock } = deps;
  await refuseEarly(sql, before);
  historyOf(sql).refuseChange();
  const nowMs = clock.now();
  return sql.begin(async (tx) => {
    const archive = await lockAccountArchive(tx, owner, before);
    if (archive === null) {
      await lockBeginnings(tx);
      const open = (await openArchive(tx)) ?? (await openAccountArchive(tx, owner));
      if (open !== null) throw refuseBeside(open);
      if (!(await isDueBefore(tx, owner, before))) throw stillKept(owner, before);
      await beginAccountArchive(tx, owner, { before, records, nowMs });
      // In the chain of the account whose records leave; the actor is the key of the operator.
      await appendAuditEntry(
        tx,
        deps,
        { ...caller, ...owner },
        {
          operation: 'archiveAttestations',
          target: `before ${renderMonth(before)}`,
          before: null,
          after: { records },
        },
      );
      return { state: 'marking', marked: 0, removed: 0 };
    }
    const { marked, markedChain: after, removed, removedChain } = archive;
    if (archive.isDone) return { state: 'done', marked, removed };
    if (removedChain === null) {
      const page = await readWholeParts(tx, { before, after, owner });
      await markAccountParts(tx, owner, before, page);
      return { state: 'marking', marked: marked + page.records, removed };
    }
    if (marked !== archive.records) throw otherwise(archive.records, marked);
    const step = await removeArchived(tx, owner, { before, after: removedChain });
    if (step.isOver) await endAccountArchive(tx, owner, before, nowMs);
    return { state: step.isOver ? 'done' : 'removing', marked, removed: removed + step.removed };
  });
}

const stillKept = ({ accountId, mode }: Owner, before: RecordMonth) =>
  new ApiError('precondition_failed', {
    message: `The account ${accountId} (${mode}) keeps records from before ${renderMonth(before)}: plan again.`,
  });

const otherwise = (inFile: number, marked: number) =>
  new ApiError('precondition_failed', {
    message:
      `The file holds ${inFile} records and the chains ${marked} before that month: nothing was removed. ` +
      'Records have changed since the file was written; restore the database.',
  });
