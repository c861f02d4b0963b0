import type { Database } from '../../control-plane/base/database.ts';

export const seededGateId = (number: number): string => `gate_${String(number).padStart(26, '0')}`;

/**
 * Adds gates of the operator past the API, which would take minutes for 100,000; a sidecar that starts
 * afterwards finds them. Returns their ids.
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
