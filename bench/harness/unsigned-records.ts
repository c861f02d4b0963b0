import {
  attestationOf,
  namesOfRows,
  recordColumns,
  type StoredRecord,
} from '../../control-plane/attestations/record-row.ts';
import type { Database } from '../../control-plane/base/database.ts';
import { ownerName } from '../../control-plane/storage/stored-owner.ts';
import type { ChainId } from '../../shared/model/attestation.ts';
import type { Owner } from '../../shared/model/owner.ts';

/**
 * One record in so many is a BLOCK, a SUSPEND, or about another permission: rare enough that a list of them
 * must use an index.
 */
const blockEvery = 10;
const suspendEvery = 10_000;
const refundEvery = 10_000;

/** What all of them repeat. */
const keyId = 'A'.repeat(43);
const sidecarId = `side_${'0'.repeat(26)}`;
const reason = 'spend_limit_exceeded';
const checks = 'passport,trust_level,freshness,issuer,permission,spend_limit';
const words = [keyId, sidecarId, reason, checks];

/**
 * Fills the store with well-formed, unsigned records, linked by sequence numbers alone and made by PostgreSQL
 * in a few microseconds each, for measuring lists. An export stops at the second record of a chain unless
 * `linkRecords` has linked them. Passports and gates take turns; each record is a millisecond younger than
 * the one before. A further call continues at `from`.
 */
export async function addUnsignedRecords(
  sql: Database,
  asked: {
    /** Of all the passports and gates. */
    readonly owner: Owner;
    readonly passportIds: readonly string[];
    readonly gateIds: readonly string[];
    /** Records that this has added before, a multiple of the number of passports. */
    readonly from: number;
    readonly count: number;
    /** Time of the very first record. */
    readonly startMs: number;
  },
): Promise<void> {
  const { owner, passportIds, gateIds, from, count, startMs } = asked;
  await sql.begin(async (tx) => {
    // Touches most of the table.
    await tx`SELECT set_config('statement_timeout', '0', true), set_config('enable_seqscan', 'on', true)`;
    await tx`
      INSERT INTO chains (chain_id, account_id, mode, sequence, hash)
      SELECT chain_id, ${owner.accountId}, ${owner.mode}, 0, NULL FROM unnest(${[...passportIds]}::text[]) AS new (chain_id)
      ON CONFLICT DO NOTHING`;
    const number = (name: string) => tx`(SELECT number FROM record_names WHERE name = ${name})`;
    await tx`
      INSERT INTO record_names (name)
      SELECT name FROM unnest(${[...gateIds, ...words, ownerName(owner)]}::text[]) AS new (name) ON CONFLICT DO NOTHING`;
    await tx`
      INSERT INTO records (
        attestation_id, chain, sequence, previous_hash, signature, signing_key, gate, decision, reason, request_hash,
        permission_key, amount_micro_usd, checks, test, source, timestamp_ms, reader)
      SELECT
        lpad(to_hex(nth), 32, '0')::uuid, chain, turn + 1,
        CASE WHEN turn > 0 THEN decode(lpad(to_hex(nth - ${passportIds.length}), 64, '0'), 'hex') END,
        decode(repeat('0', 128), 'hex'), ${number(keyId)}, gate,
        CASE WHEN nth % ${suspendEvery} = 7 THEN 'S' WHEN nth % ${blockEvery} = 3 THEN 'B' ELSE 'P' END,
        CASE WHEN nth % ${blockEvery} = 3 THEN ${number(reason)} END,
        decode(repeat('0', 64), 'hex'), CASE WHEN nth % ${refundEvery} = 5 THEN 'orders:refund' ELSE 'orders:create' END, 12500000,
        ${number(checks)}, false, ${number(sidecarId)}, ${startMs} + nth, ${number(ownerName(owner))}
      FROM generate_series(${from}::bigint, ${from + count - 1}::bigint) AS nth
      CROSS JOIN LATERAL (
        SELECT
          nth / ${passportIds.length} AS turn,
          (ARRAY(SELECT number FROM unnest(${[...passportIds]}::text[]) WITH ORDINALITY AS p (chain_id, place)
            JOIN chains USING (chain_id) ORDER BY place))[1 + nth % ${passportIds.length}] AS chain,
          (ARRAY(SELECT number FROM unnest(${[...gateIds]}::text[]) WITH ORDINALITY AS g (name, place)
            JOIN record_names USING (name) ORDER BY place))[1 + (nth / ${passportIds.length}) % ${gateIds.length}] AS gate
      ) AS placed
      ORDER BY nth`;
    await tx`
      UPDATE chains SET sequence = last.sequence, hash = last.hash, latest_ms = last.latest_ms
      FROM (
        SELECT DISTINCT ON (chain) chain, sequence, timestamp_ms AS latest_ms,
          'sha256:' || lpad(to_hex(timestamp_ms - ${startMs}), 64, '0') AS hash
        FROM records
        WHERE timestamp_ms >= ${startMs + from + count - passportIds.length}
          AND chain IN (SELECT number FROM chains WHERE chain_id = ANY(${[...passportIds]}::text[]))
        ORDER BY chain, sequence DESC
      ) AS last
      WHERE chains.number = last.chain`;
  });
}

/**
 * Links the records of a chain by their hashes too, and its head row to the last, as an export checks.
 */
export async function linkRecords(sql: Database, chainId: ChainId): Promise<void> {
  const rows = await sql<StoredRecord[]>`
    SELECT ${sql(recordColumns.map((name) => `record.${name}`))}
    FROM records AS record JOIN chains ON chains.number = record.chain
    WHERE chain_id = ${chainId} ORDER BY record.sequence`;
  const names = await namesOfRows(sql, rows);
  const hashes: string[] = [];
  for (const row of rows) {
    const previous = hashes.at(-1);
    const linked = { ...row, previous_hash: previous === undefined ? null : Buffer.from(previous, 'hex') };
    hashes.push(attestationOf(linked, chainId, names).hash.replace('sha256:', ''));
  }
  await sql.begin(async (tx) => {
    await tx`SELECT set_config('statement_timeout', '0', true), set_config('enable_seqscan', 'on', true)`;
    await tx`
      UPDATE records SET previous_hash = decode(link.hash, 'hex')
      FROM unnest(${hashes}::text[]) WITH ORDINALITY AS link (hash, place)
      WHERE chain = (SELECT number FROM chains WHERE chain_id = ${chainId}) AND sequence = link.place + 1`;
    await tx`UPDATE chains SET hash = ${`sha256:${hashes.at(-1)}`} WHERE chain_id = ${chainId}`;
  });
}
