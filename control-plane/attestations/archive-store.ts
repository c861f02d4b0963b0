import { ApiError } from '../../shared/errors/api-error.ts';
import { must } from '../../shared/errors/assert.ts';
import type { ChainId } from '../../shared/model/attestation.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Database, Transaction } from '../base/database.ts';
import { attestationsLimits } from './limits.ts';
import { hashText } from './record-row.ts';

/** Months since the year 0, as `record_month` (0041) counts them. */
export type RecordMonth = number;

/** The position of the first record that arrived in that month or later. */
export const firstPosition = (sql: Database | Transaction, month: RecordMonth) =>
  sql`(${month}::bigint << 36)`;

/** Whether the month before has been over for long enough by PostgreSQL's clock. */
export async function mayBeArchived(sql: Database, before: RecordMonth): Promise<boolean> {
  const [row] = await sql<{ may: boolean }[]>`
    SELECT record_month(statement_timestamp() - make_interval(secs => ${attestationsLimits.archiveAgeMsMin / 1_000}))
      >= ${before} AS may`;
  return must(row, 'a comparison has a row').may;
}

/**
 * Partitions that have only records from before that month, oldest first; before them the one that a call
 * has half detached, because PostgreSQL detaches no other meanwhile.
 */
export async function partitionsBefore(
  sql: Database | Transaction,
  before: RecordMonth,
): Promise<{ readonly name: string; readonly isDetaching: boolean }[]> {
  return sql<{ name: string; isDetaching: boolean }[]>`
    SELECT name, "isDetaching" FROM (
      SELECT relname AS name, inhdetachpending AS "isDetaching",
        (regexp_match(pg_get_expr(relpartbound, pg_class.oid), 'TO \\(''?(\\d+)'))[1]::bigint AS ends
      FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid WHERE inhparent = 'records'::regclass
    ) AS partitions
    WHERE ends <= ${firstPosition(sql, before)} ORDER BY "isDetaching" DESC, ends`;
}

/** What a chain has before the month. */
export interface ArchivablePart {
  readonly chainId: ChainId;
  readonly number: number;
  readonly owner: Owner;
  /** Of what is archived already; 0 and null: nothing. */
  readonly archived: number;
  readonly archivedHash: string | null;
  readonly last: number;
  readonly lastHash: string;
}

interface PartRow extends Owner {
  readonly chainId: ChainId;
  readonly number: number;
  readonly headSequence: number;
  readonly headHash: string | null;
  readonly archived: number;
  readonly archivedHash: string | null;
  readonly last: number | null;
  readonly next: number | null;
  readonly nextLink: Buffer | null;
}

/**
 * The chains of the next so many numbers, and what each has before the month. Throws `precondition_failed`
 * where a chain does not begin with exactly its records before the month: its rest would stand alone.
 */
export async function readParts(
  sql: Database | Transaction,
  { before, after, owner = null }: PartsAsked,
): Promise<PartPage> {
  const { archiveChainsMax: pageMax } = attestationsLimits;
  // Verifiers require the order of bytes in a file.
  const id = sql`chain_id COLLATE "C"`;
  const page =
    owner === null
      ? sql`number > ${after}::int ORDER BY number`
      : sql`account_id = ${owner.accountId} AND mode = ${owner.mode} AND ${id} > ${after}::text ORDER BY ${id}`;
  const rows = await sql<PartRow[]>`
    SELECT page.chain_id AS "chainId", number, account_id AS "accountId", mode, page.sequence AS "headSequence",
      page.hash AS "headHash", coalesce(archived.sequence, 0) AS archived, archived.hash AS "archivedHash",
      last.sequence AS last, next.sequence AS next, next.previous_hash AS "nextLink"
    FROM (SELECT * FROM chains WHERE ${page} LIMIT ${pageMax}) AS page
    LEFT JOIN archived_chains AS archived ON archived.chain = number
    LEFT JOIN LATERAL (
      SELECT sequence FROM records
      WHERE chain = number AND position < ${firstPosition(sql, before)} AND sequence > coalesce(archived.sequence, 0)
      ORDER BY sequence DESC LIMIT 1
    ) AS last ON true
    LEFT JOIN LATERAL (
      SELECT sequence, previous_hash FROM records WHERE chain = number AND position >= ${firstPosition(sql, before)}
      ORDER BY sequence LIMIT 1
    ) AS next ON true
    ORDER BY ${owner === null ? sql`number` : id}`;
  const last = rows.length < pageMax ? null : (rows.at(-1) ?? null);
  return { parts: rows.flatMap(partOf), looked: rows.map(({ number }) => number), last };
}

interface PartsAsked {
  readonly before: RecordMonth;
  /** A number, or with `owner` an id, in whose order the chains of an owner are. */
  readonly after: number | string;
  readonly owner?: Owner | null;
}

export interface PartPage {
  readonly parts: readonly ArchivablePart[];
  /** The numbers of all chains looked at. */
  readonly looked: readonly number[];
  /** The last chain looked at; null: no others follow. */
  readonly last: { readonly number: number; readonly chainId: ChainId } | null;
}

function partOf(row: PartRow): ArchivablePart[] {
  const { chainId, number, accountId, mode, archived, archivedHash, last } = row;
  if (last === null) return [];
  const lastHash =
    row.next === null
      ? row.headSequence === last && row.headHash
      : row.next === last + 1 && row.nextLink !== null && hashText(row.nextLink);
  if (lastHash === false || lastHash === null || last <= archived) throw notWhole(chainId);
  return [{ chainId, number, owner: { accountId, mode }, archived, archivedHash, last, lastHash }];
}

const notWhole = (what: string) =>
  new ApiError('precondition_failed', {
    message:
      `${what} cannot be archived before this month: its records before it are not one whole beginning. ` +
      'An export names a chain that is not whole; where it names none, archive before the next month.',
  });

/**
 * How many records the store holds of these chains from before the month that no archive covers: those of an
 * owner by their numbers, else all in a range of numbers, of chains that it does not know, too.
 */
async function countBefore(
  tx: Transaction,
  { before, after, owner = null }: PartsAsked,
  { looked, last }: PartPage,
): Promise<number> {
  const through = last === null ? tx`` : tx`AND chain <= ${last.number}::int`;
  const chains =
    owner === null ? tx`chain > ${after}::int ${through}` : tx`chain = ANY(${[...looked]}::int[])`;
  const [row] = await tx<{ count: number }[]>`
    SELECT count(*) AS count FROM records
    WHERE ${chains} AND position < ${firstPosition(tx, before)} AND NOT EXISTS (
      SELECT FROM archived_chains AS known WHERE known.chain = records.chain AND known.sequence >= records.sequence)`;
  return must(row, 'a count has a row').count;
}

/** As `readParts`, and that the store has no other records of these chains before the month. */
export async function readWholeParts(
  tx: Transaction,
  asked: PartsAsked,
): Promise<PartPage & { readonly records: number }> {
  const page = await readParts(tx, asked);
  const records = page.parts.reduce((sum, { last, archived }) => sum + last - archived, 0);
  if ((await countBefore(tx, asked, page)) !== records)
    throw notWhole(`A chain behind ${asked.after || 'the first'}`);
  return { ...page, records };
}

export interface Archive {
  readonly records: number;
  readonly marked: number;
  readonly markedChain: number;
  readonly isDone: boolean;
}

/** Locked: calls for one archive take turns. Null: not begun. */
export async function lockArchive(tx: Transaction, before: RecordMonth): Promise<Archive | null> {
  const [row] = await tx<Archive[]>`
    SELECT records, marked, marked_chain AS "markedChain", done_at_ms IS NOT NULL AS "isDone"
    FROM archives WHERE before_month = ${before} FOR UPDATE`;
  return row ?? null;
}

export async function beginArchive(
  tx: Transaction,
  {
    before,
    records,
    nowMs,
  }: { readonly before: RecordMonth; readonly records: number; readonly nowMs: number },
): Promise<void> {
  await tx`
    INSERT INTO archives (before_month, records, marked, marked_chain, begun_at_ms)
    VALUES (${before}, ${records}, 0, 0, ${nowMs})`;
}

/** From the commit on exports begin these chains after the marks. */
export async function markParts(
  tx: Transaction,
  before: RecordMonth,
  { parts, last, records }: PartPage & { readonly records: number },
): Promise<void> {
  await writeMarks(tx, parts);
  await tx`
    UPDATE archives SET marked = marked + ${records}::bigint, marked_chain = ${last?.number ?? chainNumberMax}
    WHERE before_month = ${before}`;
}

export const writeMarks = (tx: Transaction, parts: readonly ArchivablePart[]) => tx`
  INSERT INTO archived_chains AS known (chain, sequence, hash)
  SELECT * FROM unnest(${parts.map(({ number }) => number)}::int[], ${parts.map(({ last }) => last)}::bigint[],
    ${parts.map(({ lastHash }) => lastHash)}::text[])
  ON CONFLICT (chain) DO UPDATE SET sequence = excluded.sequence, hash = excluded.hash`;

/** Stands for: all chains are marked. */
export const chainNumberMax = 2 ** 31 - 1;

export const endArchive = (sql: Database, before: RecordMonth, nowMs: number) =>
  sql`UPDATE archives SET done_at_ms = ${nowMs} WHERE before_month = ${before} AND done_at_ms IS NULL`;

/** Tables that were partitions of months before: a call that was killed has detached them. */
export async function dropDetached(sql: Database, before: RecordMonth): Promise<void> {
  const tables = await sql<{ name: string }[]>`
    SELECT relname AS name FROM pg_class
    WHERE relkind = 'r' AND NOT relispartition
      AND relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'records'::regclass)
      AND (relname = 'records_before' OR (relname ~ '^(records|attestation_facts)_\\d{4}_\\d{2}$'
        AND substring(relname from '_(\\d{4})_')::int * 12 + right(relname, 2)::int - 1 < ${before}))`;
  for (const { name } of tables) await sql`DROP TABLE ${sql(name)}`;
}

/** The owner's records that arrived before this month may be in archives; null: none are. */
export async function archivedBefore(
  sql: Database | Transaction,
  { accountId, mode }: Owner,
): Promise<RecordMonth | null> {
  const [row] = await sql<{ month: number | null }[]>`
    SELECT greatest((SELECT max(before_month) FROM archives),
      (SELECT max(before_month) FROM account_archives WHERE account_id = ${accountId} AND mode = ${mode})) AS month`;
  return row?.month ?? null;
}

/** The moment at which it begins. */
export const monthBegins = (month: RecordMonth): UnixMillis =>
  Date.UTC(Math.floor(month / 12), month % 12) as UnixMillis;

/** One archive begins at a time, of all accounts or of one, until the transaction ends. */
export const lockBeginnings = (tx: Transaction) => tx`LOCK TABLE archives IN SHARE ROW EXCLUSIVE MODE`;

/** An archive that was begun and is not done. */
export async function openArchive(sql: Database | Transaction): Promise<RecordMonth | null> {
  const [row] = await sql<{ month: number }[]>`
    SELECT before_month AS month FROM archives WHERE done_at_ms IS NULL ORDER BY before_month LIMIT 1`;
  return row?.month ?? null;
}
