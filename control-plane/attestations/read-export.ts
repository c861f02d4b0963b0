import type { BrokenChain } from '../../shared/attestation/broken-chains.ts';
import { must } from '../../shared/errors/assert.ts';
import type { Attestation, ChainId } from '../../shared/model/attestation.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Transaction } from '../base/database.ts';
import { type ArchivablePart, type RecordMonth, readParts } from './archive-store.ts';
import { chainOwners } from './chain-store.ts';
import type { ChainWalk, NumberedChain } from './chain-walk.ts';
import { joinFacts } from './facts-store.ts';
import { idOfUuid } from './id-uuid.ts';
import { attestationsLimits } from './limits.ts';
import {
  attestationOf,
  hashText,
  isNamed,
  type NamesOfRows,
  namesOfRows,
  recordColumns,
  type StoredRecord,
} from './record-row.ts';

/** A range of one chain that is fetched at once. */
interface Range {
  readonly chain: NumberedChain;
  readonly first: number;
  readonly last: number;
}

/** Many short chains, or part of a long one. */
export type ExportSlice = readonly Range[];

/**
 * All chains of the owner in byte order of their ids, each from its first record not older than `sinceMs`
 * (null: from the start); chains without such a record are omitted. Slices of at most
 * `attestationsLimits.exportSliceRowsMax` records are fetched as the reader goes on. Reports broken chains to
 * `walk`.
 */
export async function* sliceExport(
  tx: Transaction,
  owner: Owner,
  sinceMs: UnixMillis | null,
  walk: ChainWalk,
): AsyncGenerator<ExportSlice> {
  for await (const { chains, broken } of chainPages(tx, owner, sinceMs)) {
    for (const each of broken) walk.note(each);
    yield* slicesOf(chains, walk);
  }
}

/** As `sliceExport`, of what the owner's chains have before the month and no archive has. */
export async function* sliceArchive(
  tx: Transaction,
  owner: Owner,
  before: RecordMonth,
  walk: ChainWalk,
): AsyncGenerator<ExportSlice> {
  for (let after: ChainId | '' = ''; ; ) {
    const { parts, last } = await readParts(tx, { before, after, owner });
    yield* slicesOf(parts.map(archivedChain), walk);
    if (last === null) return;
    after = last.chainId;
  }
}

const archivedChain = (part: ArchivablePart): NumberedChain => ({
  chainId: part.chainId,
  number: part.number,
  archived: part.archivedHash === null ? null : { throughSequence: part.archived, hash: part.archivedHash },
  firstSequence: part.archived + 1,
  logProof: null,
  previousAttestationHash: part.archivedHash,
  lastSequence: part.last,
  lastHash: part.lastHash,
  highest: part.last,
});

/** Names that an export has read; they belong to its snapshot. */
export type ExportNames = Map<number, string>;

/** Of an owner, by number: as stored, for the records of a slice whose ids they have. */
export interface ExportFacts {
  readonly owner: number;
  readonly byId: Map<string, string>;
}

/** Names that an export remembers; the records of one chain use few. */
const namesMax = 10_000;

/**
 * Reads a slice in order and passes each record to `walk` as it arrives. From the first unknown name to the
 * end of the slice, records wait for their names. Usually neither side sorts or buffers a slice: rows freed
 * before the next garbage collection keep the heap small.
 */
export async function readSlice(
  tx: Transaction,
  slice: ExportSlice,
  { names, facts }: { readonly names: ExportNames; readonly facts: ExportFacts | null },
  walk: ChainWalk,
): Promise<void> {
  let place = 0;
  facts?.byId.clear();
  const takeRow = (row: RowWithFacts) => {
    let range = must(slice[place], 'a slice holds only chains that were asked for');
    while (range.chain.number !== row.chain) {
      walk.reach(range.chain, range.last);
      place += 1;
      range = must(slice[place], 'a slice holds only chains that were asked for');
    }
    if (row.facts != null) facts?.byId.set(idOfUuid(row.attestation_id), row.facts);
    walk.take(range.chain, row.sequence, readRow(row, range.chain.chainId, names));
  };
  const waiting: RowWithFacts[] = [];
  // One index walk per range: a join might be planned as a scan of the whole table.
  await tx<RowWithFacts[]>`
    SELECT ${tx(recordColumns.map((name) => `record.${name}`))} ${facts === null ? tx`` : tx`, kept.facts`}
    FROM unnest(
      ${slice.map(({ chain }) => chain.number)}::int[],
      ${slice.map(({ first }) => first)}::bigint[],
      ${slice.map(({ last }) => last)}::bigint[]
    ) WITH ORDINALITY AS wanted (chain, first, last, place)
    CROSS JOIN LATERAL (
      SELECT * FROM records
      WHERE records.chain = wanted.chain AND sequence BETWEEN first AND last
      ORDER BY sequence LIMIT last - first + 1
    ) AS record
    ${facts === null ? tx`` : joinFacts(tx, facts.owner)}
    ORDER BY place, record.sequence`.forEach((row) => {
    if (waiting.length === 0 && isNamed(row, names)) takeRow(row);
    else waiting.push(row);
  });
  if (waiting.length > 0) {
    if (names.size >= namesMax) names.clear();
    for (const [number, name] of await namesOfRows(tx, waiting)) names.set(number, name);
    for (const row of waiting) takeRow(row);
  }
  for (const { chain, last } of slice.slice(place)) walk.reach(chain, last);
}

type RowWithFacts = StoredRecord & { readonly facts?: string | null };

/** Null for a row that is no valid record, or refers to a missing name. */
function readRow(row: StoredRecord, chainId: ChainId, names: NamesOfRows): Attestation | null {
  if (!isNamed(row, names)) return null;
  try {
    return attestationOf(row, chainId, names);
  } catch {
    return null;
  }
}

interface ChainRow {
  readonly chain_id: ChainId;
  readonly number: number;
  readonly last_sequence: number;
  readonly last_hash: string | null;
  /** Null: the search hit a missing record, number `missing`. */
  readonly first_sequence: number | null;
  readonly missing: number;
  readonly previous_hash: Buffer | null;
  /** The last record that is in an archive; 0 and null: none is. */
  readonly archived: number;
  readonly archived_hash: string | null;
  /** Of the existing records; null: none exist. */
  readonly lowest: number | null;
  readonly highest: number | null;
  /** The head row names another owner than the row of its passport or gate. */
  readonly is_foreign: boolean;
}

/** Chains with records to export, and the faults of others, or beyond their head rows. */
interface ChainPage {
  readonly chains: readonly NumberedChain[];
  readonly broken: readonly BrokenChain[];
}

async function* chainPages(
  tx: Transaction,
  owner: Owner,
  sinceMs: UnixMillis | null,
): AsyncGenerator<ChainPage> {
  for (let after: ChainId | '' = ''; ; ) {
    const rows: readonly ChainRow[] = await readChains(tx, owner, { sinceMs, after });
    yield { chains: rows.flatMap(exportedChain), broken: rows.flatMap(faultOfHead) };
    const last = rows.at(-1);
    if (last === undefined || rows.length < attestationsLimits.exportSliceRowsMax) return;
    after = last.chain_id;
  }
}

/** Empty if the first record is missing. */
function exportedChain(row: ChainRow): NumberedChain[] {
  const { chain_id: chainId, number, last_sequence: lastSequence, last_hash: lastHash } = row;
  if (lastHash === null || row.is_foreign) return [];
  const archived =
    row.archived_hash === null ? null : { throughSequence: row.archived, hash: row.archived_hash };
  const chain = { chainId, number, archived, lastSequence, lastHash, logProof: null };
  if (archived !== null && isArchived(row)) {
    const { throughSequence: highest, hash: previousAttestationHash } = archived;
    return [{ ...chain, highest, firstSequence: highest + 1, previousAttestationHash }];
  }
  if (row.first_sequence === null || row.highest === null) return [];
  const previousAttestationHash = row.previous_hash === null ? null : hashText(row.previous_hash);
  return [{ ...chain, highest: row.highest, firstSequence: row.first_sequence, previousAttestationHash }];
}

/** All of its records are in archives, and it has none of its own beyond them. */
const isArchived = ({ archived, last_sequence: head, first_sequence: first, highest }: ChainRow): boolean =>
  archived > 0 && archived === head && first === null && (highest === null || highest <= archived);

/** Fault of a chain that is not exported; faults of others show during the walk. */
function faultOfHead(row: ChainRow): BrokenChain[] {
  const { chain_id: chainId, last_sequence: head, missing, lowest, highest } = row;
  const broken = (fault: BrokenChain['fault'], sequence: number) => [{ chainId, fault, sequence }];
  if (row.is_foreign) return broken('owner_differs', 1);
  if (row.first_sequence !== null && row.last_hash !== null) return [];
  if (isArchived(row)) return [];
  if (highest !== null && highest > head) return broken('beyond_head', head + 1);
  if (row.first_sequence !== null) return broken('head_differs', head);
  // Created by a transaction, without a record yet.
  if (head === 0) return [];
  if (lowest === null || highest === null || missing < lowest)
    return broken('missing_at_begin', row.archived + 1);
  return missing > highest ? broken('missing_at_end', highest + 1) : broken('missing_in_middle', missing);
}

/**
 * Chains with something to export, and where each export begins, by binary search: `latest_ms` never falls
 * along a chain. Record times do, after a sidecar was offline, so the first record not older is searched from
 * there. A missing record ends the search.
 */
async function readChains(
  tx: Transaction,
  { accountId, mode }: Owner,
  asked: { readonly sinceMs: UnixMillis | null; readonly after: ChainId | '' },
): Promise<ChainRow[]> {
  const { sinceMs, after } = asked;
  // Verifiers require byte order, whatever the collation of this database.
  const id = tx`chain_id COLLATE "C"`;
  return tx<ChainRow[]>`
    WITH RECURSIVE page AS (
      SELECT chain_id, number, chains.sequence, chains.hash, coalesce(archived_chains.sequence, 0) AS archived,
        archived_chains.hash AS archived_hash
      FROM chains LEFT JOIN archived_chains ON archived_chains.chain = number
      WHERE account_id = ${accountId} AND mode = ${mode} AND ${id} > ${after}
        ${sinceMs === null ? tx`` : tx`AND latest_ms >= ${sinceMs}`}
      ORDER BY ${id} LIMIT ${attestationsLimits.exportSliceRowsMax}
    ), search (number, low, high, is_last) AS (
      SELECT number, archived + 1, high, high <= archived + 1
      FROM page CROSS JOIN LATERAL (SELECT ${sinceMs === null ? tx`archived + 1` : tx`sequence`} AS high) AS start
      UNION ALL
      SELECT number,
        CASE WHEN is_late THEN low WHEN is_late IS NULL THEN middle ELSE middle + 1 END,
        CASE WHEN is_late THEN middle ELSE high END,
        is_late IS NULL OR (CASE WHEN is_late THEN low = middle ELSE middle + 1 = high END)
      FROM search
      CROSS JOIN LATERAL (SELECT (low + high) / 2 AS middle) AS halved
      LEFT JOIN LATERAL (
        SELECT coalesce(latest_ms, timestamp_ms) >= ${sinceMs ?? 0} AS is_late FROM records
        WHERE records.chain = search.number AND sequence = middle LIMIT 1
      ) AS probed ON true
      WHERE NOT is_last
    )
    SELECT chain_id, number, page.sequence AS last_sequence, page.hash AS last_hash,
      page.archived, page.archived_hash, first.sequence AS first_sequence, first.previous_hash, low AS missing, lowest.sequence AS lowest, highest.sequence AS highest,
      other.found IS NOT NULL AS is_foreign
    FROM search JOIN page USING (number)
    LEFT JOIN LATERAL (
      SELECT sequence, previous_hash FROM records
      WHERE records.chain = search.number AND sequence = low LIMIT 1
    ) AS first ON true
    LEFT JOIN LATERAL (
      SELECT sequence FROM records WHERE first.sequence IS NULL AND records.chain = search.number ORDER BY sequence LIMIT 1
    ) AS lowest ON true
    LEFT JOIN LATERAL (
      SELECT sequence FROM records WHERE records.chain = search.number ORDER BY sequence DESC LIMIT 1
    ) AS highest ON true
    LEFT JOIN LATERAL (
      SELECT true AS found FROM (${chainOwners(tx)}) AS owner
      WHERE owner.chain_id = page.chain_id AND (account_id <> ${accountId} OR mode <> ${mode}) LIMIT 1
    ) AS other ON true
    WHERE is_last
    ORDER BY ${id}`;
}

/**
 * Cuts chains into slices of at most `exportSliceRowsMax` records: many short chains in one, or one long
 * chain over many. A chain whose records are all in archives counts as one record. A stopped chain is not
 * read further.
 */
function* slicesOf(chains: readonly NumberedChain[], walk: ChainWalk): Generator<ExportSlice> {
  let slice: Range[] = [];
  let room: number = attestationsLimits.exportSliceRowsMax;
  for (const chain of chains) {
    if (chain.lastSequence < chain.firstSequence) {
      slice.push({ chain, first: chain.firstSequence, last: chain.lastSequence });
      room -= 1;
    }
    for (let first = chain.firstSequence; first <= chain.lastSequence && !walk.hasStopped(chain); ) {
      const last = Math.min(chain.lastSequence, first + room - 1);
      slice.push({ chain, first, last });
      room -= last - first + 1;
      first = last + 1;
      if (room === 0) {
        yield slice;
        slice = [];
        room = attestationsLimits.exportSliceRowsMax;
      }
    }
    if (room === 0) {
      yield slice;
      slice = [];
      room = attestationsLimits.exportSliceRowsMax;
    }
  }
  if (slice.length > 0) yield slice;
}
