import type { ExportChain } from '../../shared/attestation/export.ts';
import { assert, must } from '../../shared/errors/assert.ts';
import type { Attestation, ChainId } from '../../shared/model/attestation.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Transaction } from '../base/database.ts';
import { attestationsLimits } from './limits.ts';
import {
  attestationOf,
  hashText,
  isNamed,
  type NamesOfRows,
  namesOfRows,
  type RecordRow,
  recordColumns,
} from './record-row.ts';

/** A chain with the number by which its records name it. */
interface NumberedChain extends ExportChain {
  readonly number: number;
}

/** Records of one chain that are fetched together. */
interface Range {
  readonly chain: NumberedChain;
  readonly first: number;
  readonly last: number;
}

/** Many short chains, or a part of a long one. */
export type ExportSlice = readonly Range[];

/**
 * All chains of the owner in the order of the bytes of their ids, each from its first record not older than
 * `sinceMs` to its end (null: whole), and none without such a record; cut into slices of at most
 * `attestationsLimits.exportSliceRowsMax` records, which are looked for as the reader goes on.
 */
export async function* sliceExport(
  tx: Transaction,
  owner: Owner,
  sinceMs: UnixMillis | null,
): AsyncGenerator<ExportSlice> {
  for await (const chains of chainPages(tx, owner, sinceMs)) yield* slicesOf(chains);
}

/** What an export has learned of names, for its own time: they are of its snapshot. */
export type ExportNames = { current: NamesOfRows };

/** Names that an export remembers; records of one chain name few. */
const namesMax = 10_000;

/**
 * Reads a slice in its order, and hands over each record as it arrives, unless it mentions a name that the
 * export has not seen: from there to the end of the slice they wait for their names. Neither side sorts or
 * holds a slice as a rule: rows that are gone before the collector of garbage comes round keep the heap as
 * small as it was.
 */
export async function readSlice(
  tx: Transaction,
  slice: ExportSlice,
  names: ExportNames,
  take: (chain: ExportChain, attestation: Attestation) => void,
): Promise<void> {
  const chains = new Map(slice.map(({ chain }) => [chain.number, chain]));
  const takeRow = (row: RecordRow) => {
    const chain = must(chains.get(row.chain), 'a slice holds only chains that were asked for');
    take(chain, attestationOf(row, chain.chainId, names.current));
  };
  const waiting: RecordRow[] = [];
  let missing = slice.reduce((sum, { first, last }) => sum + last - first + 1, 0);
  // A walk along the index of the chains for each range: a join might be planned as a look at the whole
  // table.
  await tx<RecordRow[]>`
    SELECT ${tx(recordColumns.map((name) => `record.${name}`))}
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
    ORDER BY place, record.sequence`.forEach((row) => {
    missing -= 1;
    if (waiting.length === 0 && isNamed(row, names.current)) takeRow(row);
    else waiting.push(row);
  });
  assert(missing === 0, 'a chain has every record up to its head');
  if (waiting.length === 0) return;
  const known = names.current.size < namesMax ? names.current : [];
  names.current = new Map([...known, ...(await namesOfRows(tx, waiting))]);
  for (const row of waiting) takeRow(row);
}

interface ChainRow {
  readonly chain_id: ChainId;
  readonly number: number;
  readonly last_sequence: number;
  readonly last_hash: string;
  readonly first_sequence: number;
  readonly previous_hash: Buffer | null;
}

async function* chainPages(
  tx: Transaction,
  owner: Owner,
  sinceMs: UnixMillis | null,
): AsyncGenerator<NumberedChain[]> {
  for (let after: ChainId | '' = ''; ; ) {
    const rows: readonly ChainRow[] = await readChains(tx, owner, { sinceMs, after });
    yield rows.map((row) => ({
      chainId: row.chain_id,
      number: row.number,
      firstSequence: row.first_sequence,
      previousAttestationHash: row.previous_hash === null ? null : hashText(row.previous_hash),
      lastSequence: row.last_sequence,
      lastHash: row.last_hash,
    }));
    const last = rows.at(-1);
    if (last === undefined || rows.length < attestationsLimits.exportSliceRowsMax) return;
    after = last.chain_id;
  }
}

/**
 * Chains with something to export, and the place where the export of each begins: found by halving what is
 * left of the chain, because `latest_ms` never falls along it. Times themselves do, when a sidecar was away:
 * the first record not older has to be looked for.
 */
async function readChains(
  tx: Transaction,
  { accountId, mode }: Owner,
  asked: { readonly sinceMs: UnixMillis | null; readonly after: ChainId | '' },
): Promise<ChainRow[]> {
  const { sinceMs, after } = asked;
  // Whoever verifies the export demands the order of bytes, whatever the collation of this database is.
  const id = tx`chain_id COLLATE "C"`;
  return tx<ChainRow[]>`
    WITH RECURSIVE page AS (
      SELECT chain_id, number, sequence, hash FROM chains
      WHERE account_id = ${accountId} AND mode = ${mode} AND ${id} > ${after} AND latest_ms >= ${sinceMs ?? 0}
      ORDER BY ${id} LIMIT ${attestationsLimits.exportSliceRowsMax}
    ), search (number, low, high) AS (
      SELECT number, 1::bigint, ${sinceMs === null ? tx`1::bigint` : tx`sequence`} FROM page
      UNION ALL
      SELECT number, CASE WHEN is_late THEN low ELSE middle + 1 END, CASE WHEN is_late THEN middle ELSE high END
      FROM search
      CROSS JOIN LATERAL (SELECT (low + high) / 2 AS middle) AS halved
      CROSS JOIN LATERAL (
        SELECT coalesce(latest_ms, timestamp_ms) >= ${sinceMs ?? 0} AS is_late FROM records
        WHERE records.chain = search.number AND sequence = middle LIMIT 1
      ) AS probed
      WHERE low < high
    )
    SELECT chain_id, number, page.sequence AS last_sequence, page.hash AS last_hash,
      first.sequence AS first_sequence, first.previous_hash
    FROM search JOIN page USING (number)
    CROSS JOIN LATERAL (
      SELECT sequence, previous_hash FROM records
      WHERE records.chain = search.number AND sequence = low LIMIT 1
    ) AS first
    WHERE low = high
    ORDER BY ${id}`;
}

/**
 * Cuts chains into slices of at most `exportSliceRowsMax` records: many short chains in one, or one long
 * chain over many.
 */
function* slicesOf(chains: readonly NumberedChain[]): Generator<ExportSlice> {
  let slice: Range[] = [];
  let room: number = attestationsLimits.exportSliceRowsMax;
  for (const chain of chains) {
    for (let first = chain.firstSequence; first <= chain.lastSequence; ) {
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
  }
  if (slice.length > 0) yield slice;
}
