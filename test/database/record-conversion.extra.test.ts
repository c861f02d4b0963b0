import type { Row } from 'postgres';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { migrate } from '../../control-plane/storage/migrate.ts';
import { outcomes } from '../../shared/model/decision.ts';
import { sampleId } from '../support/data/sample-chains.ts';
import { migrateUpTo } from '../support/database/earlier-migrations.ts';
import { type TestDatabase, testDatabase } from '../support/database/postgres.ts';

/** The last migration before records were stored in bytes and numbers. */
const earlierMax = 25;
/** More than one step of the conversion takes, at eight records in a block. */
const records = 26_000;

let database: TestDatabase;
let before: readonly Row[];

beforeAll(async () => {
  database = await testDatabase({ isEmpty: true });
  await migrateUpTo(database.sql, earlierMax);
  await fillAsBefore();
  before = await stored();
});
afterAll(() => database.drop());

/** By the table of before, and by the view of today. */
const stored = () =>
  database.sql<Row[]>`
    SELECT position, attestation_id, chain_id, sequence, previous_hash, hash, signature, signing_key_id, passport_id, gate_id,
      decision, reason, request_hash, permission_key, amount_micro_usd, constraints_evaluated, pii, test, resolution, refers_to,
      source, source_account, timestamp_ms, latest_ms, reader_account_id, reader_mode, other_reader_account_id, other_reader_mode
    FROM attestations ORDER BY position`;

/** Chains of a passport, of a gate and of an account, by turns, with every member that a record can lack. */
async function fillAsBefore(): Promise<void> {
  const { sql } = database;
  const [account, other] = [sampleId('acct', 1), sampleId('acct', 2)];
  const chains = [sampleId('pass', 1), sampleId('gate', 1), account, sampleId('pass', 2)];
  for (const id of [account, other]) {
    await sql`
      INSERT INTO accounts (account_id, name, plan, status, is_operator, created_at_ms)
      VALUES (${id}, 'of before', 'enterprise', 'active', ${id === account}, 0)`;
  }
  const hash = (of: ReturnType<typeof sql>) => sql`'sha256:' || encode(sha256((${of})::text::bytea), 'hex')`;
  await sql`
    INSERT INTO chains (chain_id, account_id, mode, sequence, hash, latest_ms)
    SELECT chain_id, ${account}, 'live', ${records / chains.length}, ${hash(sql`${records - chains.length}::int + place`)}, ${records}
    FROM unnest(${chains}::text[]) WITH ORDINALITY AS new (chain_id, place)`;
  const base64url = (bytes: ReturnType<typeof sql>) =>
    sql`rtrim(translate(encode(${bytes}, 'base64'), E'+/\n', '-_'), '=')`;
  await sql`
    INSERT INTO attestations (attestation_id, chain_id, sequence, previous_hash, hash, signature, signing_key_id, passport_id,
      gate_id, decision, reason, request_hash, permission_key, amount_micro_usd, constraints_evaluated, pii, test, resolution,
      refers_to, source, source_account, timestamp_ms, latest_ms, reader_account_id, reader_mode, other_reader_account_id,
      other_reader_mode)
    SELECT
      -- Every character, and the first and the last id that there can be.
      'att_' || CASE n WHEN 1 THEN repeat('0', 26) WHEN 2 THEN '7' || repeat('z', 25) ELSE substr('01234567', n % 8 + 1, 1)
        || substr(encode(sha256(n::text::bytea), 'hex'), 1, 20) || substr('ghjkmnpqrstvwxyz', n % 11 + 1, 5) END,
      chain_id, (n - 1) / ${chains.length}::int + 1,
      CASE WHEN n > ${chains.length}::int THEN ${hash(sql`n - ${chains.length}::int`)} END, ${hash(sql`n`)},
      ${base64url(sql`sha512(n::text::bytea)`)}, 'key-' || n % 2,
      CASE WHEN chain_id LIKE 'pass%' THEN chain_id END, CASE WHEN chain_id NOT LIKE 'acct%' THEN ${sampleId('gate', 1)} END,
      (${[...outcomes]}::text[])[n % 3 + 1], CASE WHEN n % 3 > 0 THEN 'spend_limit_exceeded' END, ${hash(sql`-n`)},
      CASE WHEN n % 5 > 0 THEN 'orders:create' END, CASE WHEN n % 7 > 0 THEN 9007199254740991 - n END,
      CASE n % 3 WHEN 0 THEN '{}' WHEN 1 THEN '{passport}' ELSE '{passport,trust_level}' END::text[],
      CASE WHEN n % 11 = 0 THEN '[{"pointer": "/a\\"ä", "type": "email"}]' ELSE '[]' END::jsonb, n % 13 = 0,
      CASE WHEN n > 100 AND n % 17 = 0 THEN 'voided' END,
      CASE WHEN n > 100 AND n % 17 = 0 THEN ${sampleId('att', 9)} END,
      CASE WHEN n % 2 = 0 THEN 'control-plane' ELSE ${sampleId('side', 1)} END, CASE WHEN n > 100 THEN ${account} END,
      n - n % 3, n, ${account}, CASE WHEN n % 19 = 0 THEN 'test' ELSE 'live' END,
      CASE WHEN chain_id LIKE 'pass%' AND n % 23 = 0 THEN ${other} END, CASE WHEN chain_id LIKE 'pass%' AND n % 23 = 0 THEN 'live' END
    FROM generate_series(1, ${records}) AS n
    CROSS JOIN LATERAL (SELECT (${chains}::text[])[(n - 1) % ${chains.length}::int + 1] AS chain_id) AS placed`;
}

it('keeps all that was stored, to the last character, and goes on after its last step at the next start', async () => {
  const { sql } = database;
  const last = before.at(-1);
  // The last record cannot be converted: the steps before it are kept.
  await sql`UPDATE attestations SET passport_id = ${sampleId('pass', 9)} WHERE position = ${records}`;
  await expect(migrate(sql)).rejects.toThrow('null value in column "chain"');
  const [kept] = await sql<{ count: number }[]>`SELECT count(*) AS count FROM records`;
  expect(kept?.count).toBeGreaterThan(0);
  expect(kept?.count).toBeLessThan(records);
  await sql`
    UPDATE attestations_as_text SET passport_id = ${last?.['passport_id'] ?? null}
    WHERE attestation_id = ${last?.['attestation_id'] ?? ''}`;
  await migrate(sql);
  expect(await stored()).toEqual(before);
  expect(before).toHaveLength(records);
  // The month of its arrival puts the next record after all of them (0041).
  const [next] = await sql<{ position: number }[]>`SELECT record_month(now()) << 36 AS position`;
  expect(next?.position).toBeGreaterThan(records);
});
