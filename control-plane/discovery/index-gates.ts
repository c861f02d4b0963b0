import { assert } from '../../shared/errors/assert.ts';
import { pricingModels } from '../../shared/model/catalog.ts';
import type { GateId } from '../../shared/model/ids.ts';
import type { Transaction } from '../base/database.ts';

/** The terms an entry is counted by. */
interface Counted {
  readonly permission_key: string;
  readonly area: string;
  readonly category: string | null;
  readonly currency: string | null;
  readonly pricing_model: string | null;
  readonly trust_level: string;
}

/**
 * Synchronises discovery with the database for these gates: each newest catalog with the gate's level, and
 * nothing of deleted gates, test gates and suspended accounts. The caller holds the gates' locks, and writes
 * to the account's feed only after this, because the count rows, which all accounts share, stay locked until
 * the commit.
 */
export async function indexGates(tx: Transaction, gateIds: readonly GateId[]): Promise<void> {
  const gone = await removeEntries(tx, gateIds);
  const come = await insertEntries(tx, gateIds);
  await count(tx, { gone, come });
}

const removeEntries = (tx: Transaction, gateIds: readonly GateId[]) =>
  tx<Counted[]>`
    DELETE FROM discovery_entries WHERE gate_id = ANY (${[...gateIds]}::text[])
    RETURNING permission_key, area, category, currency, pricing_model, trust_level`;

/** A price without a known model is free-form and counts as no price (contract §10). */
const insertEntries = (tx: Transaction, gateIds: readonly GateId[]) =>
  tx<Counted[]>`
    INSERT INTO discovery_entries (gate_id, permission_key, version, position, category, trust_level, pricing_model,
      price_cents, currency, uptime_basis_points, response_time_ms)
    SELECT e.gate_id, e.entry->>'key', e.version, e.position,
      nullif(e.entry->>'category', split_part(e.entry->>'key', ':', 1)), g.trust_level,
      pricing->>'model', (pricing->>'price_cents')::bigint, pricing->>'currency',
      (e.entry->'sla'->>'uptime_basis_points')::integer, (e.entry->'sla'->>'response_time_ms')::integer
    FROM gates g JOIN accounts a USING (account_id)
      CROSS JOIN LATERAL (SELECT max(version) AS version FROM catalogs c WHERE c.gate_id = g.gate_id) AS newest
      JOIN catalog_entries e ON e.gate_id = g.gate_id AND e.version = newest.version
      CROSS JOIN LATERAL (
        SELECT CASE WHEN e.entry->'pricing'->>'model' = ANY (${[...pricingModels]}::text[]) THEN e.entry->'pricing' END AS pricing
      ) AS price
    WHERE g.gate_id = ANY (${[...gateIds]}::text[]) AND g.mode = 'live' AND g.deleted_at_ms IS NULL AND a.status = 'active'
    RETURNING permission_key, area, category, currency, pricing_model, trust_level`;

/**
 * One statement with one order of rows, so that concurrent calls cannot deadlock. A term without offers keeps
 * its row, at 0.
 */
async function count(
  tx: Transaction,
  { gone, come }: { readonly gone: readonly Counted[]; readonly come: readonly Counted[] },
): Promise<void> {
  const deltas = new Map<string, { readonly row: readonly string[]; entries: number }>();
  const add = (rows: readonly Counted[], entries: 1 | -1) => {
    for (const { permission_key, area, category, currency, pricing_model, trust_level } of rows) {
      for (const term of category === null ? [permission_key, area] : [permission_key, area, category]) {
        const row = [term, currency ?? '', pricing_model ?? '', trust_level];
        const key = JSON.stringify(row);
        const delta = deltas.get(key) ?? { row, entries: 0 };
        delta.entries += entries;
        deltas.set(key, delta);
      }
    }
  };
  add(gone, -1);
  add(come, 1);
  const changed = [...deltas.values()].filter(({ entries }) => entries !== 0);
  if (changed.length === 0) return;
  const column = (index: number) => changed.map(({ row }) => row[index] ?? '');
  const counts = await tx<{ entries: number }[]>`
    INSERT INTO discovery_counts (term, currency, pricing_model, trust_level, entries)
    SELECT term, currency, pricing_model, trust_level, entries
    FROM unnest(${column(0)}::text[], ${column(1)}::text[], ${column(2)}::text[], ${column(3)}::text[],
      ${changed.map(({ entries }) => entries)}::bigint[]
    ) AS change (term, currency, pricing_model, trust_level, entries)
    ORDER BY term COLLATE "C", currency COLLATE "C", pricing_model COLLATE "C", trust_level COLLATE "C"
    ON CONFLICT (term, currency, pricing_model, trust_level)
      DO UPDATE SET entries = discovery_counts.entries + excluded.entries
    RETURNING entries`;
  assert(
    counts.every(({ entries }) => entries >= 0),
    'no capability is offered less than never',
  );
}
