import type { ChainId } from '../../shared/model/attestation.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { Database, Transaction } from '../base/database.ts';
import { firstPosition, type PartPage, type RecordMonth, writeMarks } from './archive-store.ts';
import { attestationsLimits } from './limits.ts';

/** An archive of one account and mode. */
export interface AccountArchive {
  readonly records: number;
  readonly marked: number;
  readonly markedChain: ChainId | '';
  readonly removed: number;
  /** Null: not all chains are marked. */
  readonly removedChain: ChainId | '' | null;
  readonly isDone: boolean;
}

const ofOwner = (sql: Database | Transaction, { accountId, mode }: Owner) =>
  sql`account_id = ${accountId} AND mode = ${mode}`;

/** Locked: calls for one archive take turns. Null: not begun. */
export async function lockAccountArchive(
  tx: Transaction,
  owner: Owner,
  before: RecordMonth,
): Promise<AccountArchive | null> {
  const [row] = await tx<AccountArchive[]>`
    SELECT records, marked, marked_chain AS "markedChain", removed, removed_chain AS "removedChain",
      done_at_ms IS NOT NULL AS "isDone"
    FROM account_archives WHERE ${ofOwner(tx, owner)} AND before_month = ${before} FOR UPDATE`;
  return row ?? null;
}

export const beginAccountArchive = (
  tx: Transaction,
  owner: Owner,
  {
    before,
    records,
    nowMs,
  }: { readonly before: RecordMonth; readonly records: number; readonly nowMs: number },
) => tx`
  INSERT INTO account_archives (account_id, mode, before_month, records, marked, marked_chain, removed, begun_at_ms)
  VALUES (${owner.accountId}, ${owner.mode}, ${before}, ${records}, 0, '', 0, ${nowMs})`;

/** From the commit on exports begin these chains after the marks. */
export async function markAccountParts(
  tx: Transaction,
  owner: Owner,
  before: RecordMonth,
  { parts, last, records }: PartPage & { readonly records: number },
): Promise<void> {
  await writeMarks(tx, parts);
  await tx`
    UPDATE account_archives SET marked = marked + ${records}::bigint,
      ${last === null ? tx`removed_chain = ''` : tx`marked_chain = ${last.chainId}`}
    WHERE ${ofOwner(tx, owner)} AND before_month = ${before}`;
}

/**
 * Removes the next rows that the archive covers, at most `archiveRowsMax`. One that another account may read,
 * too, stays until its month goes as a whole. Months of archives before this one are not looked at again.
 */
export async function removeArchived(
  tx: Transaction,
  owner: Owner,
  { before, after }: { readonly before: RecordMonth; readonly after: ChainId | '' },
): Promise<{ readonly removed: number; readonly isOver: boolean }> {
  const { archiveRowsMax: rowsMax, archiveChainsMax: chainsMax } = attestationsLimits;
  const id = tx`chain_id COLLATE "C"`;
  const chains = await tx<{ chainId: ChainId; number: number; archived: number }[]>`
    SELECT chain_id AS "chainId", number, archived_chains.sequence AS archived
    FROM chains JOIN archived_chains ON archived_chains.chain = number
    WHERE ${ofOwner(tx, owner)} AND ${id} > ${after} ORDER BY ${id} LIMIT ${chainsMax}`;
  const [earlier] = await tx<{ month: RecordMonth | null }[]>`
    SELECT max(before_month) AS month FROM account_archives
    WHERE ${ofOwner(tx, owner)} AND before_month < ${before}`;
  const covered = tx`position >= ${firstPosition(tx, earlier?.month ?? 0)} AND position < ${firstPosition(tx, before)}
    AND other_reader IS NULL`;
  // As for what appends (docs/adr/0023): one index walk a chain.
  await tx`SELECT set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true)`;
  const ranges = await tx<{ chain: number; first: number; last: number; rows: number }[]>`
    SELECT chain, min(sequence) AS first, max(sequence) AS last, count(*) AS rows FROM (
      SELECT record.chain, record.sequence
      FROM unnest(${chains.map(({ number }) => number)}::int[], ${chains.map(({ archived }) => archived)}::bigint[])
        WITH ORDINALITY AS wanted (chain, archived, place)
      CROSS JOIN LATERAL (
        SELECT chain, sequence FROM records
        WHERE records.chain = wanted.chain AND sequence <= wanted.archived AND ${covered}
        ORDER BY sequence LIMIT ${rowsMax}
      ) AS record
      ORDER BY place, sequence LIMIT ${rowsMax}
    ) AS found GROUP BY chain`;
  const rows = ranges.reduce((sum, range) => sum + range.rows, 0);
  if (rows > 0) {
    await tx`
      WITH gone AS (DELETE FROM records USING unnest(${ranges.map(({ chain }) => chain)}::int[],
        ${ranges.map(({ first }) => first)}::bigint[], ${ranges.map(({ last }) => last)}::bigint[]) AS range (chain, first, last)
        WHERE records.chain = range.chain AND sequence BETWEEN range.first AND range.last AND ${covered}
        RETURNING reader, attestation_id)
      DELETE FROM attestation_facts USING gone
      WHERE owner = gone.reader AND attestation_facts.attestation_id = gone.attestation_id`;
  }
  // A full page may have left rows of its chains.
  const last = chains.at(-1);
  const place = rows === rowsMax ? after : (last?.chainId ?? after);
  await tx`
    UPDATE account_archives SET removed = removed + ${rows}::bigint, removed_chain = ${place}
    WHERE ${ofOwner(tx, owner)} AND before_month = ${before}`;
  return { removed: rows, isOver: rows < rowsMax && chains.length < chainsMax };
}

export const endAccountArchive = (tx: Transaction, owner: Owner, before: RecordMonth, nowMs: number) => tx`
  UPDATE account_archives SET done_at_ms = ${nowMs}
  WHERE ${ofOwner(tx, owner)} AND before_month = ${before} AND done_at_ms IS NULL`;

/** The month of an archive of the owner, or of whose archive ever (null), that was begun and is not done. */
export async function openAccountArchive(
  sql: Database | Transaction,
  owner: Owner | null,
): Promise<RecordMonth | null> {
  const [row] = await sql<{ month: RecordMonth }[]>`
    SELECT before_month AS month FROM account_archives
    WHERE done_at_ms IS NULL ${owner === null ? sql`` : sql`AND ${ofOwner(sql, owner)}`}
    ORDER BY begun_at_ms LIMIT 1`;
  return row?.month ?? null;
}
