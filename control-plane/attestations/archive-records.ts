import { ApiError, invalidRequest } from '../../shared/errors/api-error.ts';
import type { Owner } from '../../shared/model/owner.ts';
import { appendAuditEntry } from '../audit/append-entry.ts';
import type { Database } from '../base/database.ts';
import { historyOf } from '../history/history.ts';
import type { Caller } from '../http/caller.ts';
import { isQueryCanceled } from '../storage/database-away.ts';
import { openAccountArchive } from './account-archive-store.ts';
import {
  beginArchive,
  chainNumberMax,
  dropDetached,
  endArchive,
  lockArchive,
  lockBeginnings,
  markParts,
  mayBeArchived,
  openArchive,
  partitionsBefore,
  type RecordMonth,
  readWholeParts,
} from './archive-store.ts';
import type { AppendingDeps } from './deps.ts';
import { factPartitionsBefore } from './facts-store.ts';
import { attestationsLimits } from './limits.ts';

/**
 * Records of old months leave the database for files, in steps that the command `attestations archive` asks
 * for one by one:
 *
 *     planned ──files written and verified──> begun ──chain by chain──> marked ──> partitions gone: done
 *
 * Nothing changes before `begun`, which has its audit entry. From there each step is a transaction of its
 * own, and a call that repeats it goes on after the last one: whoever is killed, the next call continues.
 * A chain that is marked is exported from the mark on; its records lie there until their partition goes.
 */

/** `2026-09` as the months that `record_month` (0041) counts. */
export function parseMonth(text: string): RecordMonth {
  const [, year, month] = /^(\d{4})-(0[1-9]|1[0-2])$/.exec(text) ?? [];
  if (year === undefined || month === undefined)
    throw invalidRequest('before', 'before must be a month such as 2026-09.');
  return Number(year) * 12 + Number(month) - 1;
}

export const renderMonth = (month: RecordMonth): string =>
  `${Math.floor(month / 12)}-${String((month % 12) + 1).padStart(2, '0')}`;

export interface PlannedOwner {
  readonly owner: Owner;
  readonly chains: number;
  readonly records: number;
}

export interface ArchivePlan {
  /** Of the chains looked at by this call. */
  readonly owners: readonly PlannedOwner[];
  /** Where the next call goes on; null: nowhere. */
  readonly next: number | null;
  readonly partitions: readonly string[];
  /** The archive has begun: only `continueArchive` is left to do. */
  readonly hasBegun: boolean;
}

/** What an archive before this month would hold, a bounded number of chains at a time. Changes nothing. */
export async function planArchive(
  { sql }: Pick<AppendingDeps, 'sql'>,
  before: RecordMonth,
  after: number,
): Promise<ArchivePlan> {
  await refuseEarly(sql, before);
  const partitions = (await partitionsBefore(sql, before)).map(({ name }) => name);
  const open = await openArchive(sql);
  if (open !== null && open !== before) throw refuseBeside(open);
  if (open !== null) return { owners: [], next: null, partitions, hasBegun: true };
  const { parts, last } = await sql.begin((tx) => readWholeParts(tx, { before, after }));
  const owners = new Map<string, PlannedOwner>();
  for (const { owner, last: end, archived } of parts) {
    const key = `${owner.accountId} ${owner.mode}`;
    const { chains, records } = owners.get(key) ?? { chains: 0, records: 0 };
    owners.set(key, { owner, chains: chains + 1, records: records + end - archived });
  }
  return { owners: [...owners.values()], next: last?.number ?? null, partitions, hasBegun: false };
}

export async function refuseEarly(sql: Database, before: RecordMonth): Promise<void> {
  if (await mayBeArchived(sql, before)) return;
  throw new ApiError('precondition_failed', {
    message:
      `Records that arrived before ${renderMonth(before)} cannot be archived yet: the month before it has to be ` +
      'over for 15 days, so that no settlement and no approval refers to a record of it.',
  });
}

export const refuseBeside = (open: RecordMonth) =>
  new ApiError('precondition_failed', {
    message: `The archive before ${renderMonth(open)} has begun and is not done: run it again first.`,
  });

export interface ArchiveProgress {
  readonly state: 'marking' | 'dropping' | 'waiting' | 'done';
  readonly marked: number;
  readonly partitions: readonly string[];
}

/**
 * Begins the archive, whose files hold so many records, or does its next step. `waiting`: an export, or
 * another transaction that has read records, has to end first.
 */
export async function continueArchive(
  deps: AppendingDeps,
  caller: Caller,
  {
    before,
    records,
    files,
  }: { readonly before: RecordMonth; readonly records: number; readonly files: number },
): Promise<ArchiveProgress> {
  const { sql, clock } = deps;
  await refuseEarly(sql, before);
  const open = await openArchive(sql);
  if (open !== null && open !== before) throw refuseBeside(open);
  historyOf(sql).refuseChange();
  const nowMs = clock.now();
  const progress = await sql.begin(async (tx): Promise<ArchiveProgress> => {
    const partitions = (await partitionsBefore(tx, before)).map(({ name }) => name);
    const archive = await lockArchive(tx, before);
    if (archive === null) {
      await lockBeginnings(tx);
      const openOne = await openAccountArchive(tx, null);
      if (openOne !== null) throw refuseBeside(openOne);
      await beginArchive(tx, { before, records, nowMs });
      await appendAuditEntry(tx, deps, caller, {
        operation: 'archiveAttestations',
        target: `before ${renderMonth(before)}`,
        before: null,
        after: { records, files, partitions: partitions.slice(0, attestationsLimits.partitionsNamedMax) },
      });
      return { state: 'marking', marked: 0, partitions };
    }
    const { marked, markedChain: after, isDone } = archive;
    if (isDone) return { state: 'done', marked, partitions };
    if (after < chainNumberMax) {
      const page = await readWholeParts(tx, { before, after });
      await markParts(tx, before, page);
      return { state: 'marking', marked: marked + page.records, partitions };
    }
    if (marked !== archive.records) {
      throw new ApiError('precondition_failed', {
        message:
          `The files hold ${archive.records} records and the chains ${marked} before that month: nothing was dropped. ` +
          'Records have changed since the files were written; restore the database, or keep these partitions.',
      });
    }
    return { state: 'dropping', marked, partitions };
  });
  if (progress.state !== 'dropping') return progress;
  return { ...progress, state: await dropNext(sql, before, nowMs) };
}

/** One partition at a time, without a lock that readers or writers of records wait for. */
async function dropNext(
  sql: Database,
  before: RecordMonth,
  nowMs: number,
): Promise<'dropping' | 'waiting' | 'done'> {
  const [ofRecords] = await partitionsBefore(sql, before);
  const [ofFacts] = ofRecords === undefined ? await factPartitionsBefore(sql, before) : [];
  const partition = ofRecords ?? ofFacts;
  try {
    if (partition === undefined) {
      await dropDetached(sql, before);
      await endArchive(sql, before, nowMs);
      return 'done';
    }
    const { name, isDetaching } = partition;
    const table = ofRecords === undefined ? 'attestation_facts' : 'records';
    await sql`ALTER TABLE ${sql(table)} DETACH PARTITION ${sql(name)} ${isDetaching ? sql`FINALIZE` : sql`CONCURRENTLY`}`;
    await dropDetached(sql, before);
    return 'dropping';
  } catch (error) {
    if (isQueryCanceled(error)) return 'waiting';
    throw error;
  }
}
