import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  countPending,
  findDueApprovals,
  findPendingApproval,
  lockDueApprovals,
  putOff,
  writeExpired,
} from '../../control-plane/approvals/approval-store.ts';
import { lockChainHeads, moveChainHeads } from '../../control-plane/attestations/chain-store.ts';
import { walkChains } from '../../control-plane/attestations/chain-walk.ts';
import { readKnown } from '../../control-plane/attestations/judge-records.ts';
import { sliceExport } from '../../control-plane/attestations/read-export.ts';
import type { Database } from '../../control-plane/base/database.ts';
import { beginHolder, saveCall, takeFromHolder, trimLeases } from '../../control-plane/book/holder-store.ts';
import { moveUnits } from '../../control-plane/book/ledger.ts';
import { readUsage } from '../../control-plane/book/read-usage.ts';
import { addToSums } from '../../control-plane/book/spend-sums.ts';
import { lockMessages } from '../../control-plane/channels/message-queue.ts';
import { claimKey as claimAnswer } from '../../control-plane/creation/idempotent-answers.ts';
import { insertSettlements } from '../../control-plane/decisions/claim-settlements.ts';
import { findStandings } from '../../control-plane/decisions/passport-standing-store.ts';
import { writeVoids } from '../../control-plane/decisions/withdraw-settlements.ts';
import { dueFederations } from '../../control-plane/issuers/federation-store.ts';
import { exportedLog } from '../../control-plane/log/compare-export.ts';
import { putArtifact } from '../../control-plane/oauth/artifact-store.ts';
import { holdLeases, type Take } from '../../control-plane/quota/judge-takes.ts';
import { findPresentedSession } from '../../control-plane/sessions/session-store.ts';
import { connect } from '../../control-plane/storage/connect.ts';
import { trimChanges } from '../../control-plane/sync/feed-store.ts';
import { windowsOf } from '../../shared/decision/windows-of.ts';
import { must } from '../../shared/errors/assert.ts';
import type {
  AccountId,
  ApprovalId,
  AttestationId,
  GateId,
  PassportId,
  SidecarId,
} from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import { dayMs, hourMs, minuteMs, type UnixMillis } from '../../shared/model/time.ts';
import { counterKey } from '../../shared/quota/counter.ts';
import { windowAt } from '../../shared/quota/window.ts';
import type { ShippedRecord } from '../../shared/wire/sync/attestation-batch.ts';
import { leaseDatabase } from '../support/database/lease-database.ts';
import { type TestDatabase, testDatabase } from '../support/database/postgres.ts';
import { startOwnApi } from '../support/service/api.ts';
import { hashOf } from '../support/service/approvals.ts';
import { useApi } from '../support/service/use-api.ts';

/**
 * Statements on large tables look at what they want and at little else, whatever the planner thinks of their
 * parameters: with those at hand (custom plans) and without (generic ones, which PostgreSQL may take from the
 * sixth time on; a LIMIT is then a tenth of the table).
 */
const rows = 60_000;
/** What one trim removes at most, twice looked at, with room; far below a look at all rows. */
const readMax = 12_000;

const plans = ['force_custom_plan', 'force_generic_plan'] as const;
const nowMs = Date.now() as UnixMillis;
const longAgoMs = nowMs - 60 * dayMs;
const day = windowAt('day', nowMs);
const gateId = (n: number) => `gate_${String(n).padStart(26, '0')}` as GateId;
const passportId = (n: number) => `pass_${String(n).padStart(26, '0')}` as PassportId;
const attestationId = (n: number) => `att_${String(n).padStart(26, '0')}` as AttestationId;
const holder = (n: number) => n.toString(16).padStart(32, '0');
const counter = (n: number) => counterKey({ kind: 'gate_spend', gateId: gateId(n), passportId: null });
/** One of 500, with a good share of the holders. */
const sidecarId = `side_${'1'.padStart(26, '0')}` as SidecarId;

let database: TestDatabase;
const api = useApi(startOwnApi);
let accountId: AccountId;

beforeAll(async () => {
  database = await testDatabase();
  ({ accountId } = await leaseDatabase(database.sql));
  const filling = connect({ url: database.url, connectionsMax: 1, silenceMsMax: 180_000 });
  await fill(filling);
  // A session tells what it has read when it is idle for ten seconds: while something else is measured,
  // unless it is told to tell at once.
  await filling`SELECT pg_stat_force_next_flush()`;
  await filling.end();
});
afterAll(() => database.drop());

/** Half of everything is old, and due to go; the rest is of now. */
async function fill(sql: Database): Promise<void> {
  const half = rows / 2;
  const ends = sql`CASE WHEN n <= ${half} THEN ${longAgoMs}::bigint + n ELSE ${day.endsAtMs}::bigint END`;
  const starts = sql`CASE WHEN n <= ${half} THEN ${longAgoMs - dayMs}::bigint ELSE ${day.startsAtMs}::bigint END`;
  const at = sql`CASE WHEN n <= ${half} THEN ${longAgoMs}::bigint + n ELSE ${nowMs}::bigint END`;
  const key = sql`'gate_spend:gate_' || lpad(n::text, 26, '0')`;
  const pass = sql`'pass_' || lpad(n::text, 26, '0')`;
  const gate = sql`'gate_' || lpad(n::text, 26, '0')`;
  await sql`INSERT INTO accounts (account_id, name, plan, status, is_operator, created_at_ms)
    SELECT 'acct_' || n, 'Test', 'free', 'active', false, 0 FROM generate_series(1, ${rows}) n`;
  await sql`INSERT INTO issuers (issuer_id, account_id, mode, name, trust_tier, metadata, status, is_default, created_at_ms)
    SELECT 'iss_' || n, 'acct_' || n, 'live', 'Test', 'L3', '{}', 'active', true, 0 FROM generate_series(1, ${rows}) n`;
  await sql`INSERT INTO passports (passport_id, account_id, mode, issuer_id, agent_id, agent_name, subject, permissions, constraints,
      trust_tier, public_key, token_hash, signing_key_id, status, issued_at_ms, metadata)
    SELECT ${pass}, 'acct_' || n, 'live', 'iss_' || n, 'agent', 'Test', '{}', '{}', '{}', 'L1', 'none', 'hash', 'test', 'active', 0, '{}'
    FROM generate_series(1, ${rows}) n`;
  await sql`INSERT INTO gates (gate_id, account_id, mode, name, trust_level, constraints, version, policy_version, created_at_ms, updated_at_ms)
    SELECT ${gate}, 'acct_' || n, 'live', 'Test', 'L1', '{}', 1, 1, 0, 0 FROM generate_series(1, ${rows}) n`;
  await sql`INSERT INTO lease_holders (holder, sidecar_id, account_id, last_seq, last_answer, last_call_at_ms)
    SELECT lpad(to_hex(n), 32, '0'), 'side_' || lpad((n % 500)::text, 26, '0'), ${accountId}, 1, '[]', ${at} FROM generate_series(1, ${rows}) n`;
  await sql`INSERT INTO quota_leases (holder, counter, window_name, starts_at_ms, ends_at_ms, units)
    SELECT lpad(to_hex(${half} + 1 + n % 100), 32, '0'), ${key}, 'day', ${starts}, ${ends}, 10 FROM generate_series(1, ${rows}) n`;
  await sql`INSERT INTO quota_windows (counter, window_name, starts_at_ms, ends_at_ms, leased)
    SELECT ${key}, 'day', ${starts}, ${ends}, 10 FROM generate_series(1, ${rows}) n`;
  await sql`INSERT INTO quota_spend (counter, window_name, starts_at_ms, ends_at_ms, spent, is_alerted)
    SELECT ${key}, 'day', ${starts}, ${ends}, 10, false FROM generate_series(1, ${rows}) n`;
  await sql`INSERT INTO settlements (settlement_id, passport_id, scope_id, key_hash, request_hash, answer, source, is_answered, expires_at_ms)
    SELECT 'att_' || n, ${pass}, ${gate}, md5(n::text), '', '{}', 'side', false, ${ends} FROM generate_series(1, ${rows}) n`;
  await sql`INSERT INTO idempotent_answers (key_id, idempotency_key, fingerprint, status, body, created_at_ms)
    SELECT 'key_' || n % 100, n::text, '', 201, '{}', ${at} FROM generate_series(1, ${rows}) n`;
  await sql`INSERT INTO feeds (feed_id, revision) VALUES (${accountId}, ${rows}) ON CONFLICT (feed_id) DO UPDATE SET revision = ${rows}`;
  await sql`INSERT INTO oauth_artifacts (model, id_hash, sealed_payload, parent_hash, expires_at_ms)
    SELECT 'Grant', md5(n::text), '', md5((n % 100)::text), ${ends} FROM generate_series(1, ${rows}) n`;
  await sql`INSERT INTO changes (feed_id, revision, kind, body, signing_key_id, signature, created_at_ms)
    SELECT ${accountId}, n, 'test', '{}', 'test', '', ${at} FROM generate_series(1, ${rows}) n`;
  await sql`INSERT INTO chains (chain_id, account_id, mode, sequence, hash)
    SELECT ${pass}, ${accountId}, 'live', 1, '' FROM generate_series(1, ${rows}) n`;
  // Of passports that are nobody else's.
  await sql`INSERT INTO chains (chain_id, account_id, mode, sequence, hash)
    SELECT 'own_' || n, 'acct_1', 'live', 1, '' FROM generate_series(1, 5000) n`;
  await sql`INSERT INTO records (attestation_id, chain, sequence, signature, signing_key, decision, request_hash, checks, test, source,
      timestamp_ms, reader)
    SELECT md5(chain_id)::uuid, number, 1, '', 0, 'B', '', 0, false, 0, ${nowMs}, 0 FROM chains`;
  await sql`INSERT INTO log_trees (log, origin, begun_at_ms, size, root) VALUES (1, 'test', 0, 0, '')`;
  await sql`INSERT INTO log_entries (log, entry, chain_id, sequence, hash)
    SELECT 1, n, ${pass}, 1, '' FROM generate_series(1, ${rows}) n`;
  await sql`INSERT INTO approvals (approval_id, status, passport_id, agent_id, gate_id, gate_version, request_hash, constraints_evaluated,
      pii, passport_account_id, passport_mode, gate_account_id, gate_mode, created_at_ms, expires_in_ms, expires_at_ms, holds, due_at_ms)
    SELECT 'appr_' || lpad(n::text, 26, '0'), 'pending', 'pass_' || lpad((n % 1000)::text, 26, '0'), 'agent', 'gate_' || lpad((n % 100)::text, 26, '0'), 1, ${hashOf(1)} || n, '{}',
      '[]', ${accountId}, 'live', ${accountId}, 'live', 0, 1, ${ends}, '[]', ${ends} FROM generate_series(1, ${rows}) n`;
  const first = sql`generate_series(1, 10) n`;
  await sql`INSERT INTO users (user_id, account_id, email, name, role, created_at_ms)
    SELECT 'user_' || n, 'acct_' || n, 'a@' || n, 'Test', 'owner', 0 FROM ${first}`;
  await sql`INSERT INTO sessions (session_id, token_hash, user_id, created_at_ms, last_seen_at_ms, expires_at_ms)
    SELECT 'sess_' || n, 'hash ' || n, 'user_' || n, 0, 0, ${nowMs}::bigint FROM ${first}`;
  await sql`INSERT INTO federations (issuer_id, account_id, mode, settings, keys, version, keys_at_ms, asked_at_ms)
    SELECT 'iss_' || n, 'acct_' || n, 'live', '{"max_key_age_s": 3600}', '[]', 1, 0, 0 FROM ${first}`;
  await sql`INSERT INTO channels (channel_id, account_id, mode, kind, name, shown_target, target_hash, sealed_target, after_ms, events,
      status, created_at_ms, updated_at_ms)
    VALUES ('chan_1', ${accountId}, 'live', 'webhook', 'Test', '', '', '', 0, '{approval.requested}', 'enabled', 0, 0)`;
  await sql`INSERT INTO channel_messages (approval_id, channel_id, event, status, next_attempt_at_ms, due_at_ms)
    SELECT approval_id, 'chan_1', 'approval.requested', 'pending', ${nowMs}::bigint, 0
    FROM approvals ORDER BY approval_id DESC LIMIT 100`;
  await sql`ANALYZE`;
}

/** A connection of its own, on which the statements under test are planned in this way. */
async function planned(plan: (typeof plans)[number]): Promise<Database> {
  const name = new URL(database.url).pathname.slice(1);
  await database.sql.unsafe(`ALTER DATABASE ${name} SET plan_cache_mode = ${plan}`);
  return connect({ url: database.url, connectionsMax: 1 });
}

/** How many rows of tables and by their indexes were looked at. */
async function readRows(
  sql: Database,
  during: () => Promise<unknown>,
): Promise<Readonly<Record<string, number>>> {
  const now = async () => {
    await sql`SELECT pg_stat_force_next_flush()`;
    const found = await sql<{ name: string; read: number }[]>`
      SELECT relname AS name, (coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::bigint AS read FROM pg_stat_user_tables`;
    return new Map(found.map(({ name, read }) => [name, read]));
  };
  const before = await now();
  await during();
  const after = await now();
  const reads = [...after].map(([name, read]): [string, number] => [name, read - (before.get(name) ?? 0)]);
  return Object.fromEntries(reads.filter(([, read]) => read > readMax));
}

const held = (n: number) =>
  ({ counter: counter(n), window: 'day', startsAtMs: day.startsAtMs, units: 1 }) as const;
const some = Array.from({ length: 100 }, (_, i) => rows / 2 + 100 * (i + 1));
const ownWindows = windowsOf({
  gate: null,
  passport: {
    passportId: passportId(1),
    spendWindows: [],
    rateWindows: [{ kind: 'passport_rate', window: 'day', limit: 1, per: 'passport' }],
  },
});
/** A PERMIT that names `some` leases. */
const takes = (ownWindows?: Take['ownWindows']): Take[] => {
  const record = {
    source: 'side_1',
    gateId: null,
    passportId: passportId(1),
    amountMicroUsd: 1,
    timestampMs: nowMs,
  };
  return [
    {
      record: record as Take['record'],
      took: some,
      ownWindows,
      passportOwner: null,
      holder: null,
      isPaid: false,
      needsApproval: false,
    },
  ];
};
let calls = 0;
const moveOne = (sql: Database, n: number) => {
  const ask = { group: 0, limit: 1_000, unitsMin: 1, unitsNeeded: 1, unitsAhead: 0 };
  return moveUnits(sql, [{ counter: counter(n), window: day, unitsBack: 0, ask }], nowMs);
};

const statements: Readonly<Record<string, (sql: Database) => Promise<unknown>>> = {
  'beginning a holder': (sql) =>
    sql.begin((tx) =>
      beginHolder(
        tx,
        { holder: `f${holder(++calls).slice(1)}`, sidecarId, accountId, epoch: 'e'.repeat(32) },
        nowMs,
      ),
    ),
  'taking from a holder': (sql) =>
    sql.begin((tx) => takeFromHolder(tx, holder(rows / 2 + 1), some.map(held))),
  'saving a lease call': (sql) =>
    sql.begin((tx) =>
      saveCall(
        tx,
        holder(rows / 2 + 1),
        { seq: 2, answer: [], granted: some.map((n) => ({ counter: counter(n), window: day, units: 1 })) },
        nowMs,
      ),
    ),
  'trimming leases': (sql) => trimLeases(sql, nowMs),
  'moving units': (sql) =>
    moveUnits(
      sql,
      some.map((n, group) => ({
        counter: counter(n),
        window: day,
        unitsBack: 1,
        ask: { group, limit: 1_000, unitsMin: 1, unitsNeeded: 2, unitsAhead: 2 },
      })),
      nowMs,
    ),
  'moving units of one window': (sql) => moveOne(sql, rows - 1),
  'opening windows': (sql) => moveOne(sql, rows + ++calls),
  'reading what limits have left': (sql) =>
    readUsage(
      sql,
      some.map((n) => ({ counter: counter(n), window: 'day' })),
      nowMs,
    ),
  'adding up what was spent': (sql) =>
    sql.begin((tx) =>
      addToSums(
        tx,
        [rows + ++calls, ...some].map((n) => ({
          ...{ counter: counter(n), window: day, held: 0 },
          ...{ spent: n === some[0] ? -1 : 1, isExact: false },
        })),
      ),
    ),
  'claiming the keys of PERMITs': (sql) =>
    sql.begin((tx) =>
      insertSettlements(
        tx,
        some.map(() => ({
          id: `att_new_${++calls}` as AttestationId,
          key: { passportId: passportId(1), scopeId: gateId(1), idempotencyKey: `key ${calls}` },
          requestHash: '',
          answer: { constraintsEvaluated: [], pii: [], amountMicroUsd: null, holdExpiresAtMs: null },
          source: 'control-plane' as const,
          readerId: `att_reader_${calls}` as AttestationId,
          askedAtMs: nowMs,
          took: [],
          held: [],
        })),
        nowMs,
      ),
    ),
  'voiding settlements': (sql) =>
    sql.begin((tx) =>
      writeVoids(
        tx,
        'side' as SidecarId,
        some.map((n) => `att_${n}` as AttestationId),
        nowMs,
      ),
    ),
  'claiming a key of the API': (sql) =>
    sql.begin((tx) =>
      claimAnswer(tx, api.deps, { callerId: 'key_1', idempotencyKey: `key ${++calls}`, fingerprint: '' }),
    ),
  'storing what the authorization server keeps': (sql) =>
    putArtifact(
      { ...api.deps, sql },
      { model: 'Grant', id: `id ${++calls}` },
      { payload: { clientId: 'client' }, endsAtMs: nowMs },
    ),
  'trimming changes': (sql) => trimChanges(sql, nowMs),
  'moving heads of chains': (sql) =>
    sql.begin((tx) =>
      moveChainHeads(
        tx,
        new Map(some.map((n) => [passportId(n), { sequence: 1, hash: '', latestMs: nowMs }])),
      ),
    ),
  'locking heads of chains': (sql) =>
    sql.begin((tx) =>
      lockChainHeads(tx, new Map(some.map((n) => [passportId(n), { accountId, mode: 'live' }]))),
    ),
  'beginning an export': (sql) =>
    sql.begin((tx) =>
      sliceExport(
        tx,
        { accountId: 'acct_1' as AccountId, mode: 'live' },
        null,
        walkChains(() => undefined),
      ).next(),
    ),
  'reading what the log has of chains': (sql) =>
    sql.begin((tx) =>
      exportedLog({ witnesses: null }).readHeads(
        tx,
        some.map((n) => ({ chainId: passportId(n), firstSequence: 1, lastSequence: 200 })),
      ),
    ),
  'reading what records are judged by': (sql) =>
    sql.begin((tx) =>
      readKnown(
        tx,
        some.map((n) => ({
          record: {
            ...{ id: attestationId(n), gateId: gateId(n), passportId: passportId(n) },
            policyHash: `sha256:${String(n).padStart(64, '0')}`,
          },
        })) as readonly unknown[] as readonly ShippedRecord[],
      ),
    ),
  'reading what passports are worth': (sql) =>
    sql.begin((tx) =>
      findStandings(
        tx,
        some.map((n) => ({ passportId: passportId(n), tokenHash: '' })),
      ),
    ),
  'keeping leases': (sql) => sql.begin((tx) => holdLeases(tx, takes())),
  'keeping leases that accounts share': (sql) => sql.begin((tx) => holdLeases(tx, takes(ownWindows))),
  'counting what waits': (sql) =>
    sql.begin((tx) => countPending(tx, { passportId: passportId(1), gateId: gateId(1) }, nowMs)),
  'finding what waits': (sql) =>
    sql.begin((tx) =>
      findPendingApproval(tx, {
        passportId: passportId(1),
        gateId: gateId(1),
        gateVersion: 1,
        requestHash: '',
        tokenUser: '',
      }),
    ),
  'finding what is due': (sql) => findDueApprovals(sql, nowMs, limits.approvalsPerSweepMax),
  'expiring what is due': (sql) =>
    sql.begin(async (tx) => {
      const due = await lockDueApprovals(tx, { nowMs, only: null, max: limits.approvalsPerSweepMax });
      expect(due).toHaveLength(limits.approvalsPerSweepMax);
      await writeExpired(
        tx,
        due.map(({ approvalId }) => approvalId),
      );
    }),
  'finding a session': async (sql) =>
    expect((await findPresentedSession(sql, 'hash 7'))?.user.accountId).toBe('acct_7'),
  'finding whose keys are due': async (sql) =>
    expect(await dueFederations(sql, { nowMs, refreshMs: hourMs, gapMs: minuteMs, max: 100 })).toHaveLength(
      10,
    ),
  'locking messages of a channel': async (sql) =>
    expect(
      await lockMessages(sql, { slots: new Map([['chan_1', 10]]), replicaId: 'replica', nowMs }),
    ).toHaveLength(10),
  'putting one off': (sql) =>
    putOff(sql, `appr_${String(rows / 2 - 1).padStart(26, '0')}` as ApprovalId, nowMs),
};

describe.each(plans)('with %s, on full tables', (plan) => {
  let sql: Database;
  beforeAll(async () => {
    sql = await planned(plan);
  });
  afterAll(() => sql.end());

  it.each(Object.keys(statements))('%s looks at little', async (name) => {
    const statement = must(statements[name] ?? null, 'a statement has a name');
    expect(await readRows(sql, () => statement(sql))).toEqual({});
  });

  it('a look at all rows would be seen', async () => {
    const read = await readRows(sql, () => sql`SELECT count(*) FROM quota_windows WHERE leased > 1e9`);
    expect(Object.keys(read)).toEqual(['quota_windows']);
  });
});
