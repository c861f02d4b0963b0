import { expect, it } from 'vitest';
import { testDatabase } from '../support/database/postgres.ts';

/**
 * Columns that some tables hold in order of bytes and others in the database's collation, with the former. An
 * index serves one collation, so a join of both looks at every row unless it names the index's: see the plans
 * in `test/api/statement-plans.extra.test.ts`. A new entry here needs one there for each join.
 */
const known: Readonly<Record<string, readonly string[]>> = {
  account_id: [
    'audit_chains',
    'audit_entries',
    'decision_counts',
    'invitations',
    'known_ends',
    'shown_passports',
    'users',
  ],
  approval_id: ['channel_messages'],
  attestation_id: ['permit_outcomes'],
  chain_id: ['known_places', 'log_entries', 'logged_heads'],
  epoch: ['lease_holders'],
  fault: ['log_witnesses'],
  feed_id: ['known_heads'],
  gate_id: ['channels', 'decision_counts', 'discovery_entries'],
  issuer_id: ['federations', 'security_events'],
  key_hash: ['settlements'],
  mode: ['decision_counts'],
  owner: ['owner_standings'],
  passport_id: ['passport_wallets', 'shown_passports'],
  permission_key: ['discovery_entries'],
  token_hash: ['invitations', 'sessions'],
  trust_level: ['discovery_counts', 'discovery_entries'],
  user_id: ['approval_answers'],
  window_name: ['quota_leases', 'quota_spend', 'quota_windows'],
};

it('holds a column of one name in one collation, but for those that are known', async () => {
  const database = await testDatabase();
  const mixed = await database.sql<{ name: string; tables: string[] }[]>`
    SELECT attname AS name, array_agg(relname::text ORDER BY relname::text COLLATE "C")
      FILTER (WHERE collname = 'C') AS tables
    FROM pg_attribute
    JOIN pg_class ON pg_class.oid = attrelid
    JOIN pg_collation ON pg_collation.oid = attcollation
    WHERE relkind IN ('r', 'p') AND NOT relispartition AND relnamespace = 'public'::regnamespace
      AND attnum > 0 AND NOT attisdropped
    GROUP BY attname HAVING count(DISTINCT attcollation) > 1`;
  await database.drop();
  expect(Object.fromEntries(mixed.map(({ name, tables }) => [name, tables]))).toEqual(known);
});
