import type { FastifyInstance } from 'fastify';
import { Registry } from 'prom-client';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { build } from '../../control-plane/app.ts';
import type { Database } from '../../control-plane/base/database.ts';
import { trimFormerLeases } from '../../control-plane/book/post.ts';
import { CheckQueue } from '../../control-plane/decisions/check-queue.ts';
import type { Deps } from '../../control-plane/deps.ts';
import { applyReported } from '../../control-plane/outcomes/apply-reported.ts';
import { expireHolds } from '../../control-plane/outcomes/expire-holds.ts';
import { trimPermits } from '../../control-plane/outcomes/outcome-store.ts';
import { trimRefused } from '../../control-plane/outcomes/reported-store.ts';
import { connect } from '../../control-plane/storage/connect.ts';
import { ownerName } from '../../control-plane/storage/stored-owner.ts';
import { sha256Hex } from '../../shared/crypto/content-hash.ts';
import { idDigest } from '../../shared/crypto/id-digest.ts';
import { must } from '../../shared/errors/assert.ts';
import type { Owner } from '../../shared/model/owner.ts';
import { dayMs, minuteMs } from '../../shared/model/time.ts';
import { windowAt } from '../../shared/quota/window.ts';
import type { LeaseCounter } from '../../shared/wire/sync/lease-call.ts';
import { type Reply, startOwnApi } from '../support/service/api.ts';
import { goToNoon } from '../support/service/approvals.ts';
import { operatorOf } from '../support/service/exports.ts';
import { type LeaseHolder, leaseHolder } from '../support/service/lease-holder.ts';
import { useApi } from '../support/service/use-api.ts';

/**
 * What is done with wallets, holds and outcomes, each by the call that does it, looks at what it wants and at
 * little else where there is much: rows, and blocks of tables and indexes, because a walk along a whole index
 * fetches no row that does not fit. With plans for the parameters at hand (custom ones) and for any (generic
 * ones, which PostgreSQL may take from the sixth time on).
 */
const rows = 30_000;
/** Far below a look at all of them, or a walk along an index of all. */
const readMax = { rows: 3_000, blocks: 1_000 };
/** A trim removes 1,000 rows of a table, each by a look at its key. */
const trimMax = { rows: 3_000, blocks: 4_000 };
/** An account has so many at most (`walletsPerAccountMax`) that a change of a tree may look at all. */
const bounded: readonly string[] = ['wallets'];
const plans = ['force_custom_plan', 'force_generic_plan'] as const;

/** Four deep: one root, nine teams with their money set aside, ten agents each, ten runs each. */
const [teams, agents, runs] = [9, 10, 10];

/** Rows are made by the thousand, in no ledger. */
const api = useApi(() => startOwnApi({ isDamaged: true }));
let owner: Owner;
let gateId: string;
let passport: Reply['body'];
let holder: LeaseHolder;
let rootId: string;
let leafId: string;
let walletsAbove: readonly string[];

interface Planted {
  readonly id: string;
  readonly parentId: string | null;
  readonly path: readonly string[];
}

beforeAll(async () => {
  goToNoon(api);
  owner = await operatorOf(api);
  gateId = (await api.createGate({ constraints: { holds: { overrun: 'charge' } } })).gate_id;
  const planted = plant();
  const [root] = planted;
  rootId = must(root?.id ?? null, 'a tree has a root');
  const leaf = must(planted.at(-1) ?? null, 'a tree has leaves');
  leafId = leaf.id;
  walletsAbove = leaf.path;
  const filling = connect({ url: api.databaseUrl, connectionsMax: 1, silenceMsMax: 180_000 });
  await fill(filling, planted);
  passport = await api.issuePassport({ wallet_id: leafId });
  holder = await leaseHolder(api);
  await filling`ANALYZE`;
  await filling`SELECT pg_stat_force_next_flush()`;
  await filling.end();
}, 180_000);

function plant(): readonly Planted[] {
  const planted: Planted[] = [];
  const add = (parent: Planted | null): Planted => {
    const id = api.deps.random.newId('wal', api.deps.clock.now());
    const each = { id, parentId: parent?.id ?? null, path: [id, ...(parent?.path ?? [])] };
    planted.push(each);
    return each;
  };
  const root = add(null);
  for (let team = 0; team < teams; team++) {
    const above = add(root);
    for (let agent = 0; agent < agents; agent++) {
      const inTeam = add(above);
      for (let run = 0; run < runs; run++) add(inTeam);
    }
  }
  return planted;
}

/** Half of what ends is over, and due to go. */
async function fill(sql: Database, planted: readonly Planted[]): Promise<void> {
  // A vacuum looks at all blocks, while something else is measured.
  await sql`
    DO $$ DECLARE name regclass; BEGIN
      FOR name IN SELECT oid FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace LOOP
        EXECUTE format('ALTER TABLE %s SET (autovacuum_enabled = false)', name);
      END LOOP;
    END $$`;
  const { accountId, mode } = owner;
  const nowMs = api.deps.clock.now();
  const day = windowAt('day', nowMs);
  const half = rows / 2;
  const longAgoMs = nowMs - 60 * dayMs;
  const starts = sql`CASE WHEN n <= ${half} THEN ${longAgoMs - dayMs}::bigint ELSE ${day.startsAtMs}::bigint END`;
  const ends = sql`CASE WHEN n <= ${half} THEN ${longAgoMs}::bigint + n ELSE ${day.endsAtMs}::bigint END`;
  const digits = sql`lpad(n::text, 26, '0')`;
  const series = sql`generate_series(1, ${rows}::bigint) n`;
  const leaves = planted.filter(({ path }) => path.length === 4);
  const leafOf = sql`(${leaves.map(({ id }) => id)}::text[])[1 + n % ${leaves.length}]`;
  const keys = planted.map(({ id }) => idDigest(id));
  const shares = planted.map(({ path }) => (path.length === 2 ? 'reserved' : 'pot'));
  await sql`
    INSERT INTO wallets (wallet_id, account_id, mode, wallet_key, name, parent_id, path, limits, share, set_aside, alert_at, status,
      created_at_ms, changed_at_ms)
    SELECT id, ${accountId}, ${mode}, key, 'Test', parent, string_to_array(path, ' '), '{"daily_usd": 1000000000000, "total_usd": 9000000000000}', share,
      CASE WHEN parent IS NULL THEN jsonb_build_object('daily_usd', ${teams}::bigint * 1000000000000, 'total_usd', ${teams}::bigint * 9000000000000) ELSE '{}' END,
      0.8, 'active', 1, 0
    FROM unnest(${planted.map(({ id }) => id)}::text[], ${keys}::text[], ${planted.map(({ parentId }) => parentId)}::text[],
      ${planted.map(({ path }) => path.join(' '))}::text[], ${shares}::text[]) AS w (id, key, parent, path, share)`;
  await sql`
    UPDATE wallets SET limits = '{"daily_usd": 20000000000000, "total_usd": 200000000000000}' WHERE wallet_id = ${rootId}`;
  const issued = await api.issuePassport();
  await sql`
    INSERT INTO passports (passport_id, account_id, mode, issuer_id, agent_id, agent_name, subject, permissions, constraints,
      trust_tier, public_key, token_hash, signing_key_id, status, issued_at_ms, metadata)
    SELECT 'pass_' || ${digits}, account_id, mode, issuer_id, 'planted-' || n, 'Test', '{}', '{}', '{}', 'L1', 'none', 'hash', signing_key_id,
      'active', 0, '{}'
    FROM ${series}, passports WHERE passport_id = ${issued.passport_id}`;
  await sql`
    INSERT INTO passport_wallets (passport_id, wallet_id, is_in_token, changed_at_ms)
    SELECT 'pass_' || ${digits}, ${leafOf}, true, 0 FROM ${series}`;
  await sql`
    INSERT INTO lease_holders (holder, sidecar_id, account_id, last_seq, last_answer, last_call_at_ms)
    SELECT lpad(to_hex(n), 32, '0'), 'side_' || lpad((n % 50)::text, 26, '0'), ${accountId}, 1, '[]', ${nowMs}::bigint
    FROM generate_series(1, 500) n`;
  await sql`
    INSERT INTO quota_leases (holder, counter, window_name, starts_at_ms, ends_at_ms, units)
    SELECT lpad(to_hex(1 + n % 500), 32, '0'), 'passport_spend:pass_' || ${digits}, window_name, ${starts}, ${day.endsAtMs}::bigint, 10
    FROM ${series}, unnest('{day,month}'::text[]) AS window_name`;
  await sql`
    INSERT INTO quota_windows (counter, window_name, starts_at_ms, ends_at_ms, leased)
    SELECT 'passport_spend:pass_' || ${digits}, 'day', ${starts}, ${ends}, 10 FROM ${series}`;
  const lanes = sql`(SELECT 'wallet_spend:' || key || lane AS counter, window_name FROM unnest(${keys}::text[]) AS key,
    unnest('{"",":pot"}'::text[]) AS lane, unnest('{day,total}'::text[]) AS window_name) AS lanes`;
  await sql`
    INSERT INTO quota_windows (counter, window_name, starts_at_ms, ends_at_ms, leased)
    SELECT counter, window_name, CASE window_name WHEN 'day' THEN ${day.startsAtMs}::bigint ELSE 0 END,
      CASE window_name WHEN 'day' THEN ${day.endsAtMs}::bigint ELSE ${windowAt('total', nowMs).endsAtMs}::bigint END, 1000 FROM ${lanes}`;
  await sql`
    INSERT INTO quota_leases (holder, counter, window_name, starts_at_ms, ends_at_ms, units)
    SELECT lpad(to_hex(holder), 32, '0'), counter, window_name, CASE window_name WHEN 'day' THEN ${day.startsAtMs}::bigint ELSE 0 END,
      ${day.endsAtMs}::bigint, 10
    FROM ${lanes}, generate_series(1, 10) AS holder WHERE counter LIKE '%:pot'`;
  await sql`
    INSERT INTO former_leases (lease_id, counter, window_name, starts_at_ms, ends_at_ms, used)
    SELECT -n, 'passport_spend:pass_' || ${digits}, 'day', ${starts}, ${ends}, 10 FROM ${series}`;
  await sql`
    INSERT INTO quota_spend (counter, window_name, starts_at_ms, ends_at_ms, spent, held, is_alerted)
    SELECT 'wallet_spend:' || (${keys}::text[])[1 + n % ${keys.length}], 'day', ${day.startsAtMs}::bigint - ${dayMs}::bigint * (n / ${keys.length}),
      ${day.endsAtMs}::bigint - ${dayMs}::bigint * (n / ${keys.length}), 1, 0, false FROM ${series}`;
  // Of others, and of this account.
  const other = await api.createAccount();
  for (const [who, count] of [
    [other.accountId, rows],
    [accountId, 300],
  ] as const)
    await sql`
      INSERT INTO approvals (approval_id, status, passport_id, agent_id, gate_id, gate_version, request_hash, constraints_evaluated,
        pii, passport_account_id, passport_mode, gate_account_id, gate_mode, created_at_ms, expires_in_ms, expires_at_ms, holds, due_at_ms)
      SELECT left(${who}, 10) || ${digits}, 'pending', 'pass_' || ${digits}, 'agent', ${gateId}, 1, ${who} || n, '{}', '[]',
        ${who}, 'live', ${who}, 'live', 0, 1, ${nowMs + dayMs}::bigint,
        jsonb_build_array(jsonb_build_object('counter', 'passport_spend:' || n, 'window', 'day', 'startsAtMs', 0, 'units', 1)), ${nowMs + dayMs}::bigint
      FROM generate_series(1, ${count}::bigint) n`;
  const names = [...leaves.map(({ id }) => id), gateId, 'x', ownerName(owner)];
  await sql`INSERT INTO record_names (name) SELECT unnest(${names}::text[]) ON CONFLICT DO NOTHING`;
  const number = (name: string) => sql`(SELECT number FROM record_names WHERE name = ${name})`;
  await sql`
    INSERT INTO chains (chain_id, account_id, mode, sequence, hash)
    SELECT 'pass_' || ${digits}, ${accountId}, ${mode}, 1, '' FROM ${series}`;
  await sql`
    INSERT INTO records (attestation_id, chain, sequence, signature, signing_key, decision, request_hash, checks, test, source,
      timestamp_ms, reader, gate, permission_key, amount_micro_usd, wallet)
    SELECT md5(chain_id)::uuid, c.number, 1, '', ${number('x')}, 'P', '', ${number('x')}, false, ${number('x')}, ${nowMs}::bigint, ${number(ownerName(owner))},
      ${number(gateId)}, 'orders:create', 10000, names.number
    FROM chains c JOIN passport_wallets w ON w.passport_id = c.chain_id JOIN record_names names ON names.name = w.wallet_id`;
  await sql`
    INSERT INTO wallet_chains (wallet_id, chain)
    SELECT w.wallet_id, c.number FROM chains c JOIN passport_wallets w ON w.passport_id = c.chain_id`;
  // One of a hundred is open, one of a thousand was released.
  await sql`
    INSERT INTO permit_outcomes (attestation_id, account_id, mode, gate_id, passport_id, counts_micro_usd, hold_micro_usd, hold_status,
      hold_expires_at_ms, due_at_ms)
    SELECT 'att_' || ${digits}, ${accountId}, ${mode}, ${gateId}, 'pass_' || ${digits}, 10000, 10000,
      CASE WHEN n % 100 = 0 THEN 'open' WHEN n % 1000 = 1 THEN 'released' ELSE 'settled' END, ${nowMs + dayMs}::bigint,
      CASE WHEN n % 100 = 0 THEN ${nowMs + dayMs}::bigint END
    FROM ${series}`;
  await sql`
    INSERT INTO reported_outcomes (outcome_id, account_id, mode, sidecar_id, attestation_id, outcome, reported_at_ms, received_at_ms,
      due_at_ms, code, message)
    SELECT 'out_' || ${digits}, ${accountId}, ${mode}, 'side', 'att_' || ${digits}, 'served', ${nowMs}::bigint, ${nowMs}::bigint,
      CASE WHEN n % 2 = 0 THEN ${nowMs + dayMs}::bigint END, CASE WHEN n % 2 = 1 THEN 'outcome_conflict' END, ''
    FROM ${series}`;
}

interface Served {
  readonly deps: Deps;
  readonly call: (method: string, path: string, body?: object) => Promise<Reply>;
  readonly close: () => Promise<void>;
}

/** A control plane with one connection, on which everything is planned in this way. */
async function served(plan: (typeof plans)[number]): Promise<Served> {
  const name = new URL(api.databaseUrl).pathname.slice(1);
  await api.deps.sql.unsafe(`ALTER DATABASE ${name} SET plan_cache_mode = ${plan}`);
  const sql = connect({ url: api.databaseUrl, connectionsMax: 1 });
  const { slots, clock } = api.deps;
  const deps: Deps = { ...api.deps, sql, checks: new CheckQueue({ slots, clock }), metrics: new Registry() };
  const app: FastifyInstance = build(deps);
  await app.ready();
  return {
    deps,
    call: async (method, path, body) => {
      const response = await app.inject({
        method: method as 'GET',
        url: `/v1${path}`,
        headers: {
          authorization: `Bearer ${path.startsWith('/sync/') ? holder.sidecar.key : api.adminKey}`,
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        },
        ...(body === undefined ? {} : { payload: JSON.stringify(body) }),
      });
      const reply = { status: response.statusCode, body: response.json(), headers: response.headers };
      expect(reply.status, JSON.stringify(reply.body)).toBeLessThan(300);
      return reply;
    },
    close: async () => {
      await app.close();
      await sql.end();
    },
  };
}

interface Read {
  readonly rows: number;
  readonly blocks: number;
}

/** How much of each table was looked at where that is much. */
async function readMuch(
  sql: Database,
  during: () => Promise<unknown>,
  max: Read = readMax,
): Promise<Readonly<Record<string, Read>>> {
  const now = async (): Promise<ReadonlyMap<string, Read>> => {
    await sql`SELECT pg_stat_force_next_flush()`;
    const found = await sql<({ name: string } & Read)[]>`
      SELECT s.relname AS name, (coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::bigint AS rows,
        (heap_blks_read + heap_blks_hit + coalesce(idx_blks_read, 0) + coalesce(idx_blks_hit, 0))::bigint AS blocks
      FROM pg_stat_user_tables s JOIN pg_statio_user_tables USING (relid)`;
    return new Map(found.map(({ name, ...read }) => [name, read]));
  };
  const before = await now();
  await during();
  const after = await now();
  return Object.fromEntries(
    [...after].flatMap(([name, read]) => {
      const was = before.get(name) ?? { rows: 0, blocks: 0 };
      const of = { rows: read.rows - was.rows, blocks: read.blocks - was.blocks };
      return !bounded.includes(name) && (of.rows > max.rows || of.blocks > max.blocks) ? [[name, of]] : [];
    }),
  );
}

const check = async ({ call }: Served, amount: number, rest: object = {}): Promise<string> => {
  const request = { permission_key: 'orders:create', amount, ...rest };
  const { body } = await call('POST', `/gates/${gateId}/check`, { passport: passport.jwt, request });
  expect(body).toMatchObject({ decision: 'PERMIT' });
  return body.attestation_id;
};
/** As a batch of a sidecar leaves it. */
const ship = ({ deps }: Served, attestationId: string) => {
  const nowMs = deps.clock.now();
  return deps.sql`
    INSERT INTO reported_outcomes (outcome_id, account_id, mode, sidecar_id, attestation_id, outcome, reported_at_ms, received_at_ms, due_at_ms)
    VALUES (${deps.random.newId('out', nowMs)}, ${owner.accountId}, ${owner.mode}, ${holder.sidecar.sidecarId}, ${attestationId}, 'served',
      ${nowMs}, ${nowMs}, ${nowMs})`;
};
const time = (ms: number) => new Date(api.deps.clock.now() + ms).toISOString();
let leaseSeq = 0;
let cursors: { readonly holds: string; readonly refused: string };

/** What is counted of the passport's wallets, in each by pot or by what is set aside. */
function walletLanes(): readonly LeaseCounter[] {
  const [, , team = ''] = walletsAbove;
  const of = { gate_id: null, passport_id: passport.passport_id, token_hash: sha256Hex(passport.jwt) };
  return walletsAbove.map((id) => {
    const lane = id === rootId ? idDigest(team) : 'pot';
    return { ...of, kind: 'wallet_spend' as const, wallet: `${idDigest(id)}:${lane}` };
  });
}

/** Asks for more than there is, so that it is told what others have of it; then gives all back. */
async function leaseAll({ call }: Served): Promise<void> {
  const { sidecarId: sidecar_id, connectionId: connection_id } = holder.sidecar;
  const of = { sidecar_id, connection_id, holder: holder.holder };
  const wallets = [{ passport_id: passport.passport_id, token_hash: sha256Hex(passport.jwt) }];
  const lanes = walletLanes().flatMap((lane) =>
    (['day', 'total'] as const).map((window) => ({ ...lane, window })),
  );
  const asks = lanes.map((lane) => ({ ...lane, units_min: 1, units_needed: 9e14, units_ahead: 0 }));
  const { body } = await call('POST', '/sync/leases', { ...of, seq: ++leaseSeq, returns: [], asks, wallets });
  const returns = lanes.map((lane, place) => {
    const { starts_at_ms, granted: units } = body.grants[place];
    expect(units).toBeGreaterThan(0);
    return { ...lane, starts_at_ms, units };
  });
  await call('POST', '/sync/leases', { ...of, seq: ++leaseSeq, returns, asks: [] });
}

const operations: Readonly<Record<string, (on: Served) => Promise<unknown>>> = {
  'a list of wallets': ({ call }) => call('GET', '/wallets?limit=50'),
  'roots of the tree': ({ call }) => call('GET', '/wallets?parent_wallet_id='),
  'wallets of a name': ({ call }) => call('GET', '/wallets?name=nothing'),
  'wallets of a parent': ({ call }) => call('GET', `/wallets?parent_wallet_id=${walletsAbove[1]}`),
  'a root and what it has left': ({ call }) => call('GET', `/wallets/${rootId}`),
  'a wallet and what it has left': ({ call }) => call('GET', `/wallets/${leafId}`),
  'a statement': ({ call }) =>
    call('GET', `/wallets/${leafId}/statement?since=${time(-dayMs)}&until=${time(dayMs)}`),
  'a wallet made, moved, lowered and deleted': async ({ call }) => {
    const body = { name: 'new', parent_wallet_id: rootId, limits: { daily_usd: 1 }, share: 'reserved' };
    const { wallet_id: id } = (await call('POST', '/wallets', body)).body;
    await call('PUT', `/wallets/${id}`, { limits: { daily_usd: 0.5 }, alert_at: 0.5 });
    await call('PUT', `/wallets/${id}`, { parent_wallet_id: walletsAbove[2] });
    await call('DELETE', `/wallets/${id}`);
  },
  'a wallet frozen and not frozen any more': async ({ call }) => {
    await call('POST', `/wallets/${rootId}/freeze`, {});
    await call('POST', `/wallets/${rootId}/unfreeze`, {});
  },
  'a passport that moves': async ({ call }) => {
    for (const wallet_id of [null, leafId])
      await call('POST', `/passports/${passport.passport_id}/wallet`, { wallet_id });
  },
  'a PERMIT that counts in each wallet': (on) => check(on, 1),
  'a hold that is extended, settled above it and refunded': async (on) => {
    const id = await check(on, 2, { hold: true });
    await on.call('POST', `/attestations/${id}/hold/extend`, { expires_in_s: 7_200 });
    await on.call('POST', `/attestations/${id}/outcome`, { outcome: 'served', amount: 3 });
    await on.call('POST', `/attestations/${id}/refund`, { amount: 1 });
    await on.call('GET', `/attestations/${id}/outcome`);
  },
  'holds that end': async (on) => {
    await check(on, 2, { hold: { expires_in_s: 60 } });
    api.advance(2 * minuteMs);
    expect(await expireHolds(on.deps)).toBe(1);
  },
  'outcomes that were shipped': async (on) => {
    const id = await check(on, 2, { hold: true });
    await ship(on, id);
    await ship(on, 'att_00000000000000000000000000');
    expect(await applyReported(on.deps)).toBeGreaterThanOrEqual(2);
  },
  // The first page counts, as that of every list.
  'the next page of holds': ({ call }) => call('GET', `/holds?limit=50&cursor=${cursors.holds}`),
  'open holds': ({ call }) => call('GET', '/holds?status=open&limit=50'),
  'the next page of refused outcomes': ({ call }) =>
    call('GET', `/outcomes?status=refused&limit=50&cursor=${cursors.refused}`),
  'leases of every wallet, given back in the next call': leaseAll,
};

describe.each(plans)('with %s, where there is much', (plan) => {
  let on: Served;
  beforeAll(async () => {
    on = await served(plan);
    // The first that opens a window, or begins a sum, trims those of the past.
    await check(on, 1);
    const cursor = async (path: string) => (await on.call('GET', path)).body.next_cursor;
    cursors = {
      holds: await cursor('/holds?limit=50'),
      refused: await cursor('/outcomes?status=refused&limit=50'),
    };
  });
  afterAll(() => on.close());

  it.each(Object.keys(operations))('%s: looks at little', async (name) => {
    const operation = must(operations[name] ?? null, 'an operation has a name');
    expect(await readMuch(on.deps.sql, () => operation(on))).toEqual({});
  });

  it('trims look at what they remove', async () => {
    const { sql, clock } = on.deps;
    const trim = async () => {
      await trimPermits(sql, clock.now());
      await trimRefused(sql, clock.now());
      await sql.begin(trimFormerLeases);
    };
    expect(await readMuch(sql, trim, trimMax)).toEqual({});
  });

  it('a look at all rows would be seen', async () => {
    const { sql } = on.deps;
    const all = () => sql`SELECT count(*) FROM passports WHERE agent_name = 'none'`;
    expect(Object.keys(await readMuch(sql, all))).toEqual(['passports']);
  });
});
