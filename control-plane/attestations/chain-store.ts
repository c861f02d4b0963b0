import { emptyChain } from '../../shared/attestation/chain.ts';
import { assert } from '../../shared/errors/assert.ts';
import type { ChainId } from '../../shared/model/attestation.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Database, Transaction } from '../base/database.ts';
import { advisoryLocks } from '../storage/locks.ts';
import { together } from '../storage/together.ts';
import type { ChainTip } from './link-records.ts';

/** The stored last record of a chain. */
interface StoredHead extends ChainTip {
  /** The number that records use for the chain. */
  readonly number: number;
  /**
   * Nothing may be appended to the chain: it goes on elsewhere (contract §17). Read with the lock, so that it
   * holds at every replica from the commit of the report on.
   */
  readonly isAhead: boolean;
  /** The month turned a moment ago, or is about to. */
  readonly isMonthTurning: boolean;
}

/** The current heads of these chains, not locked. */
export async function readChainTips(
  sql: Database,
  chainIds: readonly ChainId[],
): Promise<Map<ChainId, ChainTip>> {
  if (chainIds.length === 0) return new Map();
  const rows = await sql<({ chain_id: ChainId } & ChainTip)[]>`
    SELECT chain_id, sequence, hash, latest_ms AS "latestMs" FROM chains WHERE chain_id = ANY(${[...chainIds]}::text[])`;
  const tips = new Map<ChainId, ChainTip>(
    chainIds.map((chainId) => [chainId, { ...emptyChain, latestMs: 0 as UnixMillis }]),
  );
  for (const { chain_id, ...tip } of rows) tips.set(chain_id, tip);
  return tips;
}

/**
 * Prepares the transaction for its records. A cached plan from a time of few chains would hash-join the
 * moving heads with all of them (docs/adr/0023).
 *
 * `lacksPartition`: a record that arrives in ten days would have no partition (0041). By the clock of the
 * database, which chooses the partition: whatever the clock of this program says, and however long all
 * control planes were away.
 */
const beginAppending = (tx: Transaction) => tx<{ lacksPartition: boolean }[]>`
  SELECT set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true),
    to_regclass(record_partition(record_month(statement_timestamp() + interval '10 days'))) IS NULL AS "lacksPartition"`;

/** Those of this month and the next two, unless another transaction has just made them. */
async function makePartitions(tx: Transaction): Promise<void> {
  await tx`SELECT pg_advisory_xact_lock(${advisoryLocks.recordPartitions})`;
  await tx`SELECT make_record_partitions()`;
}

/**
 * Locks the heads of these chains until the transaction ends, and creates missing chains with these owners.
 *
 * Two transactions cannot deadlock: each creates its missing chains in the order of chain_id, then locks all
 * of its chains in that order. A transaction that locks never waits for one that still inserts, because all
 * rows it needs exist by then.
 */
export async function lockChainHeads(
  tx: Transaction,
  owners: ReadonlyMap<ChainId, Owner>,
): Promise<Map<ChainId, StoredHead>> {
  const chainIds = [...owners.keys()].sort();
  const accountIds = chainIds.map((chainId) => owners.get(chainId)?.accountId ?? null);
  const modes = chainIds.map((chainId) => owners.get(chainId)?.mode ?? null);
  const begin = tx`
    INSERT INTO chains (chain_id, account_id, mode, sequence, hash)
    SELECT chain_id, account_id, mode, ${emptyChain.sequence}, ${emptyChain.hash}
    FROM unnest(${chainIds}::text[], ${accountIds}::text[], ${modes}::text[]) AS new (chain_id, account_id, mode)
    -- A conflict alone would use up a number.
    WHERE NOT EXISTS (SELECT FROM chains WHERE chains.chain_id = new.chain_id)
    ORDER BY chain_id
    ON CONFLICT (chain_id) DO NOTHING`;
  const lock = tx<({ chain_id: ChainId } & StoredHead)[]>`
    SELECT chain_id, number, sequence, hash, latest_ms AS "latestMs",
      EXISTS (SELECT FROM known_places WHERE known_places.chain_id = chains.chain_id
        AND in_generation = (SELECT max(number) FROM generations)) AS "isAhead",
      record_month(statement_timestamp() - interval '10 minutes') <> record_month(statement_timestamp() + interval '1 minute')
        AS "isMonthTurning"
    FROM chains WHERE chain_id = ANY(${chainIds}::text[])
    ORDER BY chain_id FOR UPDATE`;
  // Sent together; the last statement sees the chains that the one before it created.
  const [[state], , rows] = await together([() => beginAppending(tx), () => begin, () => lock]);
  if (state?.lacksPartition === true) await makePartitions(tx);
  assert(rows.length === chainIds.length, 'each chain was begun before it is locked');
  return new Map(rows.map(({ chain_id, ...head }) => [chain_id, head]));
}

/** Moves the heads of locked chains. */
export async function moveChainHeads(tx: Transaction, heads: ReadonlyMap<ChainId, ChainTip>): Promise<void> {
  const moved = [...heads];
  const { count } = await tx`
    UPDATE chains SET sequence = head.sequence, hash = head.hash, latest_ms = head.latest_ms
    FROM unnest(
      ${moved.map(([chainId]) => chainId)}::text[],
      ${moved.map(([, { sequence }]) => sequence)}::bigint[],
      ${moved.map(([, { hash }]) => hash)}::text[],
      ${moved.map(([, { latestMs }]) => latestMs)}::bigint[]
    ) AS head (chain_id, sequence, hash, latest_ms)
    WHERE chains.chain_id = head.chain_id`;
  assert(count === moved.length, 'each chain that was added to has moved');
}

/** Whose chain it is by the row of its passport, gate or account: `chain_id`, `account_id`, `mode`. */
export const chainOwners = (tx: Transaction) => tx`
  SELECT passport_id AS chain_id, account_id, mode FROM passports
  UNION ALL SELECT gate_id, account_id, mode FROM gates
  UNION ALL SELECT account_id, account_id, 'live' FROM accounts`;

/**
 * Lets chains go on after these places, whose records are lost: no place is given out twice, and the hole
 * shows in every export that reaches over it.
 */
export async function skipPlaces(
  tx: Transaction,
  places: readonly { readonly chainId: string; readonly lastPlace: number; readonly lastHash: string }[],
): Promise<void> {
  if (places.length === 0) return;
  // Of a chain that is not begun here; what the database does not know of at all has no owner, and no
  // records.
  await tx`
    INSERT INTO chains (chain_id, account_id, mode, sequence, hash)
    SELECT chain_id, account_id, mode, ${emptyChain.sequence}, ${emptyChain.hash} FROM (${chainOwners(tx)}) AS owners
    WHERE chain_id = ANY(${places.map(({ chainId }) => chainId)}::text[])
    ON CONFLICT (chain_id) DO NOTHING`;
  await tx`
    UPDATE chains SET sequence = known.sequence, hash = known.hash
    FROM unnest(${places.map(({ chainId }) => chainId)}::text[], ${places.map(({ lastPlace }) => lastPlace)}::bigint[],
      ${places.map(({ lastHash }) => lastHash)}::text[]) AS known (chain_id, sequence, hash)
    WHERE chains.chain_id = known.chain_id AND chains.sequence < known.sequence`;
}
