import type { ExportChain } from '../../shared/attestation/export.ts';
import { assert, must } from '../../shared/errors/assert.ts';
import type { Attestation, ChainId } from '../../shared/model/attestation.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Transaction } from '../base/database.ts';
import { type AttestationRow, attestationColumns, attestationOf } from './attestation-row.ts';
import { attestationsLimits } from './limits.ts';

/** Records of one chain that are fetched together. */
interface Range {
  readonly chain: ExportChain;
  readonly first: number;
  readonly last: number;
}

/** Many short chains, or a part of a long one. */
export type ExportSlice = readonly Range[];

/**
 * All chains of the owner in the order of their ids, each from its first record not older than `sinceMs` to
 * its end (null: whole), and none without such a record; cut into slices of at most
 * `attestationsLimits.exportSliceRowsMax` records, which are looked for as the reader goes on.
 */
export async function* sliceExport(
  tx: Transaction,
  owner: Owner,
  sinceMs: UnixMillis | null,
): AsyncGenerator<ExportSlice> {
  for await (const chains of chainPages(tx, owner, sinceMs)) yield* slicesOf(chains);
}

/**
 * Reads a slice in its order, and hands over each record as it arrives. Neither side sorts or holds a slice:
 * rows that are gone before the collector of garbage comes round keep the heap as small as it was.
 */
export async function readSlice(
  tx: Transaction,
  slice: ExportSlice,
  take: (chain: ExportChain, attestation: Attestation) => void,
): Promise<void> {
  const chains = new Map(slice.map(({ chain }) => [chain.chainId, chain]));
  let missing = slice.reduce((sum, { first, last }) => sum + last - first + 1, 0);
  // A walk along the index of the chains for each range: a join might be planned as a look at the whole
  // table.
  await tx<AttestationRow[]>`
    SELECT ${tx(attestationColumns.map((name) => `record.${name}`))}
    FROM unnest(
      ${slice.map(({ chain }) => chain.chainId)}::text[],
      ${slice.map(({ first }) => first)}::bigint[],
      ${slice.map(({ last }) => last)}::bigint[]
    ) AS wanted (chain_id, first, last)
    CROSS JOIN LATERAL (
      SELECT * FROM attestations
      WHERE attestations.chain_id = wanted.chain_id AND sequence BETWEEN first AND last
      ORDER BY sequence LIMIT last - first + 1
    ) AS record
    ORDER BY record.chain_id, record.sequence`.forEach((row) => {
    missing -= 1;
    take(must(chains.get(row.chain_id), 'a slice holds only chains that were asked for'), attestationOf(row));
  });
  assert(missing === 0, 'a chain has every record up to its head');
}

interface ChainRow {
  readonly chain_id: ChainId;
  readonly last_sequence: number;
  readonly last_hash: string;
  readonly first_sequence: number;
  readonly previous_hash: string | null;
}

async function* chainPages(
  tx: Transaction,
  owner: Owner,
  sinceMs: UnixMillis | null,
): AsyncGenerator<ExportChain[]> {
  for (let after: ChainId | '' = ''; ; ) {
    const rows: readonly ChainRow[] = await readChains(tx, owner, { sinceMs, after });
    yield rows.map((row) => ({
      chainId: row.chain_id,
      firstSequence: row.first_sequence,
      previousAttestationHash: row.previous_hash,
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
  return tx<ChainRow[]>`
    WITH RECURSIVE page AS (
      SELECT chain_id, sequence, hash FROM chains
      WHERE account_id = ${accountId} AND mode = ${mode} AND chain_id > ${after} AND latest_ms >= ${sinceMs ?? 0}
      ORDER BY chain_id LIMIT ${attestationsLimits.exportSliceRowsMax}
    ), search (chain_id, low, high) AS (
      SELECT chain_id, 1::bigint, ${sinceMs === null ? tx`1::bigint` : tx`sequence`} FROM page
      UNION ALL
      SELECT chain_id, CASE WHEN is_late THEN low ELSE middle + 1 END, CASE WHEN is_late THEN middle ELSE high END
      FROM search
      CROSS JOIN LATERAL (SELECT (low + high) / 2 AS middle) AS halved
      CROSS JOIN LATERAL (
        SELECT latest_ms >= ${sinceMs ?? 0} AS is_late FROM attestations
        WHERE attestations.chain_id = search.chain_id AND sequence = middle LIMIT 1
      ) AS probed
      WHERE low < high
    )
    SELECT chain_id, page.sequence AS last_sequence, page.hash AS last_hash,
      first.sequence AS first_sequence, first.previous_hash
    FROM search JOIN page USING (chain_id)
    CROSS JOIN LATERAL (
      SELECT sequence, previous_hash FROM attestations
      WHERE attestations.chain_id = search.chain_id AND sequence = low LIMIT 1
    ) AS first
    WHERE low = high
    ORDER BY chain_id`;
}

/**
 * Cuts chains into slices of at most `exportSliceRowsMax` records: many short chains in one, or one long
 * chain over many.
 */
function* slicesOf(chains: readonly ExportChain[]): Generator<ExportSlice> {
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
