import type { Database } from '../../control-plane/base/database.ts';

export const seededGateId = (number: number): string => `gate_${String(number).padStart(26, '0')}`;

/**
 * Inserts gates of the operator, because the API would take minutes for 100,000. A sidecar started afterwards
 * has them in its snapshot. Returns their ids.
 */
export async function addGates(sql: Database, count: number): Promise<readonly string[]> {
  const constraints = {
    ...{ allowed_domains: ['api.example.com'], spend_limits: { per_transaction_usd: 500 } },
  };
  await sql`
    INSERT INTO gates (gate_id, account_id, mode, name, trust_level, constraints, catalog_prices, version, policy_version, created_at_ms, updated_at_ms)
    SELECT 'gate_' || lpad(i::text, 26, '0'), account_id, 'live', 'Gate ' || i, 'L1', ${JSON.stringify(constraints)}::text::jsonb, NULL, 1, 1, 0, 0
    FROM generate_series(1, ${count}::int) AS i, (SELECT account_id FROM accounts WHERE is_operator) AS operator`;
  return Array.from({ length: count }, (_, index) => seededGateId(index + 1));
}

/**
 * A made-up market: gates that offer ten permissions each. Few areas and categories are crowded and many are
 * not: of 1,000 areas the largest holds 3 % of all entries, of 100 categories the largest holds 10 %. A fifth
 * of the entries has no price, three in ten promise nothing.
 */
const entriesPerGate = 10;
const areas = 1_000;
const categories = 100;

export const areaName = (index: number): string => `area${index}`;
export const categoryName = (index: number): string => `category${index}`;

/** Index of an area or category for a number from [0, 1), with the spread of entries and questions. */
export const crowded = (chance: number, of: 'areas' | 'categories'): number =>
  Math.floor((of === 'areas' ? areas : categories) * chance ** 2);

/**
 * Fills an empty database with so many entries without the API, which would sign 100,000 catalogs one by one.
 * The signatures are made up; all that discovery reads is as publishing leaves it. Indexes are dropped and
 * made again, which takes a tenth of the time.
 */
export async function fillMarket(sql: Database, entries: number): Promise<void> {
  const gates = Math.ceil(entries / entriesPerGate);
  await sql.begin(async (tx) => {
    await tx`SET LOCAL statement_timeout = 0`;
    await tx`SET LOCAL idle_in_transaction_session_timeout = 0`;
    await tx`SELECT setseed(0.5)`;
    await tx`
      INSERT INTO gates (gate_id, account_id, mode, name, trust_level, constraints, catalog_prices, version, policy_version, created_at_ms, updated_at_ms)
      SELECT 'gate_' || lpad(i::text, 26, '0'), account_id, 'live', 'Gate ' || i, 'L' || (1 + i % 3), '{}', '{}', 1, 1, 0, 0
      FROM generate_series(1, ${gates}::int) AS i, (SELECT account_id FROM accounts WHERE is_operator) AS operator`;
    await tx`
      INSERT INTO catalogs (gate_id, version, published_at_ms, content_hash, signature, signing_key_id)
      SELECT gate_id, 1, 0, 'sha256:' || encode(sha256(gate_id::bytea), 'hex'), repeat('s', 86), repeat('k', 43) FROM gates`;
    await tx`
      INSERT INTO catalog_entries (gate_id, version, position, entry)
      SELECT gate_id, 1, position, jsonb_build_object(
        'key', format('area%s:action%s', floor(${areas} * power(random(), 2)), position * 2 + i % 2),
        'display_name', 'Something useful', 'description', repeat('It does what it says. ', 5),
        'category', 'category' || floor(${categories} * power(random(), 2)), 'risk_level', 'low',
        'pricing', CASE WHEN random() < 0.8 THEN jsonb_build_object(
          'model', (ARRAY['per_call', 'per_minute', 'subscription'])[1 + floor(3 * power(random(), 2))::int],
          'price_cents', floor(10000 * random() * random())::int,
          'currency', (ARRAY['USD', 'USD', 'USD', 'USD', 'EUR'])[1 + floor(5 * random())::int]) END,
        'sla', CASE WHEN random() < 0.7 THEN jsonb_build_object(
          'uptime_basis_points', 10000 - floor(1000 * power(random(), 2))::int,
          'response_time_ms', 10 + floor(2000 * power(random(), 2))::int) END,
        'platform_fee', NULL, 'requires_approval', false)
      FROM (SELECT gate_id, right(gate_id, 6)::int AS i FROM gates) AS g, generate_series(0, ${entriesPerGate - 1}) AS position`;
    await indexMarket(tx);
  });
  // Not in a transaction: PostgreSQL does not vacuum inside one.
  await sql.unsafe('VACUUM ANALYZE gates, catalogs, catalog_entries, discovery_entries, discovery_counts');
}

async function indexMarket(tx: Parameters<Parameters<Database['begin']>[1]>[0]): Promise<void> {
  const indexes = await tx<{ name: string; definition: string }[]>`
    SELECT indexname AS name, indexdef AS definition FROM pg_indexes
    WHERE tablename = 'discovery_entries' AND indexname NOT LIKE '%_pkey'`;
  for (const { name } of indexes) await tx`DROP INDEX ${tx(name)}`;
  await tx`
    INSERT INTO discovery_entries (gate_id, permission_key, version, position, category, trust_level, pricing_model,
      price_cents, currency, uptime_basis_points, response_time_ms)
    SELECT e.gate_id, e.entry->>'key', e.version, e.position,
      nullif(e.entry->>'category', split_part(e.entry->>'key', ':', 1)), g.trust_level,
      e.entry->'pricing'->>'model', (e.entry->'pricing'->>'price_cents')::bigint, e.entry->'pricing'->>'currency',
      (e.entry->'sla'->>'uptime_basis_points')::integer, (e.entry->'sla'->>'response_time_ms')::integer
    FROM catalog_entries e JOIN gates g USING (gate_id)`;
  await tx`
    INSERT INTO discovery_counts (term, currency, pricing_model, trust_level, entries)
    SELECT term, coalesce(currency, ''), coalesce(pricing_model, ''), trust_level, count(*)
    FROM discovery_entries, unnest(ARRAY[permission_key, area, category]) AS term
    WHERE term IS NOT NULL GROUP BY 1, 2, 3, 4`;
  for (const { definition } of indexes) await tx.unsafe(definition);
}
