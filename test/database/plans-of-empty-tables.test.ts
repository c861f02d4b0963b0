import { expect, it } from 'vitest';
import { lockChainHeads, moveChainHeads } from '../../control-plane/attestations/chain-store.ts';
import { readKnown } from '../../control-plane/attestations/judge-records.ts';
import type { Transaction } from '../../control-plane/base/database.ts';
import { dropSettlements, insertSettlements } from '../../control-plane/decisions/claim-settlements.ts';
import { setUpSettling } from '../../control-plane/decisions/settle-batch.ts';
import { writeVoids } from '../../control-plane/decisions/withdraw-settlements.ts';
import { serveLeaseCall } from '../../control-plane/quota/serve-lease-call.ts';
import { together } from '../../control-plane/storage/together.ts';
import { emptyChain } from '../../shared/attestation/chain.ts';
import type { AccountId, PassportId } from '../../shared/model/ids.ts';
import { dayMs, type UnixMillis } from '../../shared/model/time.ts';
import { windowAt } from '../../shared/quota/window.ts';
import { systemRandom } from '../../shared/runtime/random.ts';
import type { ShippedRecord } from '../../shared/wire/sync/attestation-batch.ts';
import { newSettlement } from '../support/data/new-settlement.ts';
import { leaseDatabase } from '../support/database/lease-database.ts';
import { useDatabase, usePool } from '../support/database/use-database.ts';
import { ofGate, wish } from '../support/service/lease-holder.ts';

/**
 * Some statements are planned once for a connection: on the first day of an installation while their tables
 * are empty, when looking through all of a table seems the cheapest way to find a row.
 */
const rows = 10_000;
const nowMs = Date.now() as UnixMillis;
const database = useDatabase();
const pool = usePool(database, 1);

/** New, sent again, a copy that reads the first, its void, and the end of the first. */
async function settle(n: number): Promise<void> {
  await pool.begin(async (tx: Transaction) => {
    await setUpSettling(tx);
    const [first, copy] = [newSettlement(`${n}`, `${n}`), newSettlement(`copy_${n}`, `${n}`)];
    await insertSettlements(tx, [first], nowMs);
    await insertSettlements(tx, [first, copy], nowMs);
    await writeVoids(tx, 'control-plane', [copy.readerId], nowMs);
    await dropSettlements(tx, [first.id]);
  });
}

/** Of the table, and of its partitions. */
async function rowsLookedAt(table: string): Promise<number> {
  await pool`SELECT pg_stat_force_next_flush()`;
  const [row] = await pool<{ read: number }[]>`
    SELECT sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::bigint AS read
    FROM pg_stat_user_tables WHERE relid IN (SELECT relid FROM pg_partition_tree(${table}::regclass))
      OR relname = ${table}`;
  return row?.read ?? 0;
}

it('finds settlements by their keys also with plans that were made while there were none', async () => {
  await settle(1);
  await database.sql`
    INSERT INTO settlements (settlement_id, passport_id, scope_id, key_hash, request_hash, source, is_answered, expires_at_ms)
    SELECT 'att_other_' || n, 'pass_1', 'gate_1', 'hash ' || n, '', 'control-plane', false, ${nowMs + dayMs}::bigint
    FROM generate_series(1, ${rows}) n`;
  const before = await rowsLookedAt('settlements');
  await settle(2);
  expect((await rowsLookedAt('settlements')) - before).toBeLessThan(rows / 10);
});

it('finds records by their ids, at ingest and in settlements, however often it has looked while there were none', async () => {
  const record = { id: systemRandom().newId('att', nowMs), gateId: null, passportId: null, policyHash: null };
  const shipped = [{ record }] as readonly unknown[] as readonly ShippedRecord[];
  const inSettlement = () =>
    pool.begin((tx) => together([() => setUpSettling(tx), () => readKnown(tx, shipped)]));
  // From the sixth time on PostgreSQL may keep a plan.
  for (let time = 0; time < 10; time++) await readKnown(pool, shipped);
  await inSettlement();
  await database.sql`
    INSERT INTO records (sequence, timestamp_ms, attestation_id, chain, reader, source, signing_key, checks, decision, test,
      request_hash, signature, previous_hash)
    SELECT n, 0, gen_random_uuid(), 1, 1, 1, 1, 1, 'P', false, '', '', CASE WHEN n > 1 THEN ''::bytea END
    FROM generate_series(1, ${rows}) n`;
  const before = await rowsLookedAt('records');
  await readKnown(pool, shipped);
  await inSettlement();
  expect((await rowsLookedAt('records')) - before).toBeLessThan(rows / 10);
});

it('finds the heads of chains by their keys, however often it has looked while there were few', async () => {
  const accountId = 'acct_1' as AccountId;
  await database.sql`
    INSERT INTO accounts (account_id, name, plan, status, is_operator, created_at_ms)
    VALUES (${accountId}, 'Test', 'free', 'active', false, 0)`;
  const chains = Array.from({ length: 20 }, (_, n) => `pass_${n}` as PassportId);
  const append = () =>
    pool.begin(async (tx) => {
      await lockChainHeads(tx, new Map(chains.map((chain) => [chain, { accountId, mode: 'live' }])));
      await moveChainHeads(tx, new Map(chains.map((chain) => [chain, { ...emptyChain, latestMs: nowMs }])));
    });
  for (let time = 0; time < 10; time++) await append();
  await database.sql`
    INSERT INTO chains (chain_id, account_id, mode, sequence, hash)
    SELECT 'pass_other_' || n, ${accountId}, 'live', 0, '' FROM generate_series(1, ${rows}) n`;
  const before = await rowsLookedAt('chains');
  await append();
  expect((await rowsLookedAt('chains')) - before).toBeLessThan(rows / 10);
});

it('finds leases and windows by their keys, however often it has looked while there were few', async () => {
  const world = await leaseDatabase(pool);
  const gateId = await world.createGate({ spend_limits: { daily_usd: 10 } });
  const { sidecarId, connectionId } = await world.connectSidecar();
  const [holder, other] = ['1'.repeat(32), '2'.repeat(32)];
  const counter = ofGate('gate_spend', gateId);
  const { startsAtMs } = windowAt('day', nowMs);
  let seq = 0;
  const call = async () => {
    const returned = { ...counter, window: 'day', starts_at_ms: startsAtMs, units: 1 } as const;
    const { kind } = await serveLeaseCall(
      pool,
      world.accountId,
      {
        sidecar_id: sidecarId,
        connection_id: connectionId,
        holder,
        seq: ++seq,
        asks: [wish(counter, 'day', 1)],
        returns: seq === 1 ? [] : [returned],
      },
      nowMs,
    );
    expect(kind).toBe('answered');
  };
  for (let time = 0; time < 40; time++) await call();
  await database.sql`
    INSERT INTO lease_holders (holder, sidecar_id, account_id, last_seq, last_answer, last_call_at_ms)
    VALUES (${other}, ${sidecarId}, ${world.accountId}, 1, '[]', ${nowMs})`;
  await database.sql`
    INSERT INTO quota_windows (counter, window_name, starts_at_ms, ends_at_ms, leased)
    SELECT 'gate_spend:other_' || n, 'day', ${startsAtMs}::bigint, ${startsAtMs + dayMs}::bigint, 1
    FROM generate_series(1, ${rows}) n`;
  await database.sql`
    INSERT INTO quota_leases (holder, counter, window_name, starts_at_ms, ends_at_ms, units)
    SELECT ${other}, counter, window_name, starts_at_ms, ends_at_ms, 1 FROM quota_windows
    WHERE starts_with(counter, 'gate_spend:other_')`;
  const tables = ['quota_leases', 'quota_windows'];
  const read = async () => (await Promise.all(tables.map(rowsLookedAt))).reduce((sum, each) => sum + each, 0);
  const before = await read();
  for (let time = 0; time < 10; time++) await call();
  expect((await read()) - before).toBeLessThan(rows / 10);
});
