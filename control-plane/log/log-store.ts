import { assert, must } from '../../shared/errors/assert.ts';
import type { LoggedHead } from '../../shared/log/entry.ts';
import { emptyRoot, type Range, rangeHash, type Tree, type TreeHash } from '../../shared/log/merkle.ts';
import {
  type Edge,
  type Grown,
  readFromTiles,
  type TileName,
  tileOf,
  tileWidth,
  widthOf,
} from '../../shared/log/tiles.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Database, Transaction } from '../base/database.ts';
import { databaseNowMs } from '../storage/database-clock.ts';
import { logLimits } from './limits.ts';

/** The newest log. */
export interface LogTree extends Tree {
  readonly log: number;
  readonly origin: string;
  /** Null: nothing was signed yet. */
  readonly signed: string | null;
}

export interface PublishedLog {
  readonly log: number;
  readonly origin: string;
  readonly size: number;
  readonly published: string | null;
  readonly publishedSize: number;
  readonly publishedAtMs: UnixMillis | null;
  readonly witnessed: string | null;
  readonly witnessedSize: number;
  readonly witnessedAtMs: UnixMillis | null;
}

const publishedColumns = (sql: Database | Transaction) => sql`
  log, origin, size, published, published_size AS "publishedSize", published_at_ms AS "publishedAtMs",
  witnessed, witnessed_size AS "witnessedSize", witnessed_at_ms AS "witnessedAtMs"`;

/** The newest log. */
export async function readPublished(sql: Database | Transaction): Promise<PublishedLog | null> {
  const [row] = await sql<PublishedLog[]>`
    SELECT ${publishedColumns(sql)} FROM log_trees ORDER BY log DESC LIMIT 1`;
  return row ?? null;
}

/** Those before the newest one, too: at most `logsServedMax`. */
export const readLogs = (sql: Database): Promise<readonly PublishedLog[]> =>
  sql<PublishedLog[]>`
    SELECT ${publishedColumns(sql)} FROM log_trees ORDER BY log DESC LIMIT ${logLimits.logsServedMax}`;

/** Nothing where there is one. */
export async function beginFirstLog(sql: Database, origin: string): Promise<void> {
  await sql`
    INSERT INTO log_trees (log, origin, begun_at_ms, size, root)
    SELECT 1, ${origin}, ${databaseNowMs(sql)}, 0, ${Buffer.from(emptyRoot)}
    WHERE NOT EXISTS (SELECT FROM log_trees) ON CONFLICT DO NOTHING`;
}

/** A further one, in which every chain is logged anew. The caller holds the lock of the generation. */
export async function beginNextLog(tx: Transaction, originFor: (log: number) => string): Promise<void> {
  const [row] = await tx<{ log: number }[]>`SELECT coalesce(max(log), 0) + 1 AS log FROM log_trees`;
  const log = must(row, 'max is a row').log;
  await tx`
    INSERT INTO log_trees (log, origin, begun_at_ms, size, root)
    VALUES (${log}, ${originFor(log)}, ${databaseNowMs(tx)}, 0, ${Buffer.from(emptyRoot)})`;
}

/** The driver writes no arrays of bytes. */
const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');

/** Makes this replica the writer, or keeps it so. Null: another one is. */
export async function claimLog(
  sql: Database,
  { replicaId, forMs }: { readonly replicaId: string; readonly forMs: number },
): Promise<LogTree | null> {
  const [row] = await sql<LogTree[]>`
    WITH claimed AS (
      UPDATE log_trees SET writer = ${replicaId}, writer_until_ms = ${databaseNowMs(sql)} + ${forMs}::int
      WHERE log = (SELECT max(log) FROM log_trees)
        AND (writer IS NULL OR writer_until_ms < ${databaseNowMs(sql)}
          OR (writer = ${replicaId} AND writer_until_ms < ${databaseNowMs(sql)} + ${forMs - logLimits.renewAfterMs}::int)
          -- The clock of the database was set back to before the last write of a writer that is gone.
          OR writer_until_ms > ${databaseNowMs(sql)} + 2 * ${forMs}::int)
      RETURNING log, origin, size, root, signed)
    SELECT * FROM claimed UNION ALL
    SELECT log, origin, size, root, signed FROM log_trees
    WHERE log = (SELECT max(log) FROM log_trees) AND writer = ${replicaId} AND NOT EXISTS (SELECT FROM claimed)`;
  return row ?? null;
}

export async function leaveLog(sql: Database, replicaId: string): Promise<void> {
  await sql`UPDATE log_trees SET writer = NULL, writer_until_ms = 0 WHERE writer = ${replicaId}`;
}

/** The tree, locked to the end of the transaction, if this replica is its writer still. */
export async function lockLog(
  tx: Transaction,
  { log, replicaId }: { readonly log: number; readonly replicaId: string },
): Promise<LogTree | null> {
  const [row] = await tx<LogTree[]>`
    SELECT log, origin, size, root, signed FROM log_trees
    WHERE log = ${log} AND log = (SELECT max(log) FROM log_trees) AND writer = ${replicaId} FOR UPDATE`;
  return row ?? null;
}

/** The partial tiles at the right edge of a tree of this size. */
export async function readEdge(tx: Transaction, log: number, size: number): Promise<Edge> {
  const names: TileName[] = [];
  for (let level = 0; size >= tileWidth ** level; level++) {
    const number = Math.floor(size / tileWidth ** (level + 1));
    names.push({ level, number });
  }
  const tiles = await readTiles(tx, log, names, size);
  return names.map(({ level, number }) => tiles.get(`${level}/${number}`) ?? Buffer.alloc(0));
}

/** By `level/number`; those that the tree of this size has, as it has them. */
export async function readTiles(
  sql: Database | Transaction,
  log: number,
  names: readonly TileName[],
  size: number,
): Promise<Map<string, Uint8Array>> {
  const rows = await sql<(TileName & { hashes: Uint8Array })[]>`
    SELECT level, number, hashes FROM log_tiles
    JOIN unnest(${names.map(({ level }) => level)}::int[], ${names.map(({ number }) => number)}::bigint[])
      AS asked (level, number) USING (level, number)
    WHERE log = ${log}`;
  return new Map(
    rows.flatMap(({ hashes, ...name }) => {
      const bytes = widthOf(name, size) * 32;
      return bytes === 0 || hashes.length < bytes
        ? []
        : [[`${name.level}/${name.number}`, hashes.subarray(0, bytes)] as const];
    }),
  );
}

export async function writeGrown(
  tx: Transaction,
  log: number,
  {
    grown,
    heads,
    first,
  }: { readonly grown: Grown; readonly heads: readonly LoggedHead[]; readonly first: number },
): Promise<void> {
  const { changed } = grown;
  assert(first + heads.length === grown.size, 'entries are numbered to the end of their tree');
  await tx`
    INSERT INTO log_tiles (log, level, number, hashes)
    SELECT ${log}, level, number, decode(hashes, 'hex') FROM unnest(${changed.map(({ level }) => level)}::int[],
      ${changed.map(({ number }) => number)}::bigint[], ${changed.map(({ hashes }) => hex(hashes))}::text[])
      AS new (level, number, hashes)
    ON CONFLICT (log, level, number) DO UPDATE SET hashes = excluded.hashes`;
  const chains = heads.map(({ chainId }) => chainId);
  const sequences = heads.map(({ sequence }) => sequence);
  await tx`
    INSERT INTO log_entries (log, entry, chain_id, sequence, hash)
    SELECT ${log}, ${first}::bigint + place - 1, chain_id, sequence, decode(hash, 'hex')
    FROM unnest(${chains}::text[], ${sequences}::bigint[],
      ${heads.map(({ hash }) => hash.slice('sha256:'.length))}::text[])
      WITH ORDINALITY AS new (chain_id, sequence, hash, place)`;
  await tx`
    INSERT INTO logged_heads AS logged (chain_id, log, sequence)
    SELECT chain_id, ${log}, sequence FROM unnest(${chains}::text[], ${sequences}::bigint[]) AS new (chain_id, sequence)
    ORDER BY chain_id
    ON CONFLICT (chain_id) DO UPDATE SET log = excluded.log, sequence = excluded.sequence`;
}

/** `signed`: its checkpoint. Also for a tree that has not grown: the empty one is signed too. */
export async function moveTree(
  tx: Transaction,
  { log, size, root, signed, writerMs }: Omit<LogTree, 'origin'> & { readonly writerMs: number },
): Promise<void> {
  assert(signed !== null, 'a tree is signed with its growth');
  const moved = await tx`
    UPDATE log_trees SET size = ${size}, root = ${Buffer.from(root)}, signed = ${signed},
      signed_at_ms = ${databaseNowMs(tx)}, writer_until_ms = ${databaseNowMs(tx)} + ${writerMs}::int
    WHERE log = ${log}`;
  assert(moved.count === 1, 'the log that is locked has its row');
}

/** Nothing where the log has another tree by now: this replica stood still, or the database went back. */
export async function publish(
  sql: Database,
  {
    tree: { log, size, root },
    note,
    isWitnessed,
  }: { readonly tree: LogTree; readonly note: string; readonly isWitnessed: boolean },
): Promise<void> {
  await sql`
    UPDATE log_trees SET published = ${note}, published_size = ${size}, published_at_ms = ${databaseNowMs(sql)},
      witnessed = CASE WHEN ${isWitnessed} THEN ${note} ELSE witnessed END,
      witnessed_size = CASE WHEN ${isWitnessed} THEN ${size}::bigint ELSE witnessed_size END,
      witnessed_at_ms = CASE WHEN ${isWitnessed} THEN ${databaseNowMs(sql)} ELSE witnessed_at_ms END
    WHERE log = ${log} AND size = ${size}::bigint AND root = ${Buffer.from(root)}
      -- Nor does a checkpoint lose its quorum, because witnesses are away when it is shown to them again.
      AND (${isWitnessed} OR witnessed_size < ${size}::bigint)`;
}

/** The hashes of these subtrees in a tree of this size. */
export async function readRanges(
  sql: Database | Transaction,
  log: number,
  ranges: readonly Range[],
  size: number,
): Promise<TreeHash[]> {
  const names = new Map<string, TileName>();
  const nothing = Buffer.alloc(32);
  const note = (height: number, index: number) => {
    const name = tileOf(height, index);
    names.set(`${name.level}/${name.number}`, name);
    return nothing;
  };
  for (const range of ranges) rangeHash(range, note);
  const tiles = await readTiles(sql, log, [...names.values()], size);
  const read = readFromTiles(({ level, number }) =>
    must(tiles.get(`${level}/${number}`), 'every tile of a tree is stored with it'),
  );
  return ranges.map((range) => rangeHash(range, read));
}

/** The first entry of a chain at or after this place, among the first `size`. */
export async function findEntry(
  sql: Database,
  { log, size }: { readonly log: number; readonly size: number },
  chainId: string,
  sequence: number,
): Promise<{ readonly index: number; readonly head: LoggedHead } | null> {
  const [row] = await sql<{ index: number; sequence: number; hash: string }[]>`
    SELECT entry AS index, sequence, 'sha256:' || encode(hash, 'hex') AS hash FROM log_entries
    WHERE log = ${log} AND chain_id = ${chainId} AND sequence >= ${sequence} AND entry < ${size}
    ORDER BY sequence LIMIT 1`;
  return row === undefined
    ? null
    : { index: row.index, head: { chainId, sequence: row.sequence, hash: row.hash } };
}

/** The newest entry of each of these chains within its range, among the first `size`. */
export const findEntries = (
  tx: Transaction,
  { log, size }: { readonly log: number; readonly size: number },
  chains: readonly {
    readonly chainId: string;
    readonly firstSequence: number;
    readonly lastSequence: number;
  }[],
): Promise<readonly (LoggedHead & { readonly index: number })[]> =>
  tx<(LoggedHead & { readonly index: number })[]>`
    SELECT wanted.chain_id AS "chainId", found.sequence, 'sha256:' || encode(found.hash, 'hex') AS hash,
      found.entry AS index
    FROM unnest(${chains.map(({ chainId }) => chainId)}::text[],
      ${chains.map(({ firstSequence }) => firstSequence)}::bigint[],
      ${chains.map(({ lastSequence }) => lastSequence)}::bigint[]) AS wanted (chain_id, first, last)
    CROSS JOIN LATERAL (
      SELECT entry, sequence, hash FROM log_entries
      WHERE log = ${log} AND log_entries.chain_id = wanted.chain_id AND sequence BETWEEN first AND last
        AND entry < ${size}
      ORDER BY sequence DESC LIMIT 1
    ) AS found`;

/** Entries `[from, to)`. */
export const readEntries = (
  sql: Database,
  log: number,
  { from, to }: Range,
): Promise<readonly LoggedHead[]> =>
  sql<LoggedHead[]>`
    SELECT chain_id AS "chainId", sequence, 'sha256:' || encode(hash, 'hex') AS hash FROM log_entries
    WHERE log = ${log} AND entry >= ${from} AND entry < ${to} ORDER BY entry`;

/** What was heard from a witness last. */
export interface WitnessState {
  readonly witness: string;
  /** Null: it cosigned. */
  readonly fault: string | null;
  /** Of the newest checkpoint that it cosigned. */
  readonly size: number;
  readonly cosignedAtMs: UnixMillis | null;
}

export const readWitnesses = (sql: Database | Transaction): Promise<readonly WitnessState[]> =>
  sql<WitnessState[]>`
    SELECT witness, fault, size, cosigned_at_ms AS "cosignedAtMs" FROM log_witnesses ORDER BY witness`;

/** Those that are not named any more are forgotten. */
export async function writeWitnesses(
  sql: Database,
  heard: readonly { readonly witness: string; readonly fault: string | null; readonly size: number }[],
): Promise<void> {
  const names = heard.map(({ witness }) => witness);
  await sql`
    WITH gone AS (DELETE FROM log_witnesses WHERE witness <> ALL(${names}::text[]))
    INSERT INTO log_witnesses AS known (witness, fault, size, cosigned_at_ms, asked_at_ms)
    SELECT witness, fault, size, CASE WHEN fault IS NULL THEN ${databaseNowMs(sql)} END, ${databaseNowMs(sql)}
    FROM unnest(${names}::text[], ${heard.map(({ fault }) => fault)}::text[],
      ${heard.map(({ size }) => size)}::bigint[]) AS new (witness, fault, size)
    ORDER BY witness
    ON CONFLICT (witness) DO UPDATE SET fault = excluded.fault, asked_at_ms = excluded.asked_at_ms,
      size = CASE WHEN excluded.fault IS NULL THEN excluded.size ELSE known.size END,
      cosigned_at_ms = coalesce(excluded.cosigned_at_ms, known.cosigned_at_ms)`;
}
