import type { Database } from '../control-plane/base/database.ts';
import type { Owner } from '../shared/model/owner.ts';

/**
 * Of every so many records one is a BLOCK, and of every so many one a SUSPEND, or one for another permission:
 * rare enough that a list of them must not look for long.
 */
const blockEvery = 10;
const suspendEvery = 10_000;
const refundEvery = 10_000;

/**
 * Fills the store with records that are well formed, linked by sequence numbers alone and signed by nobody:
 * made by PostgreSQL itself, a few microseconds each, for measuring lists and the memory of exports. They
 * stand in the chains of the passports by turns, and turn by turn at another gate; each is a millisecond
 * younger than the one before. Called again it goes on where `from` says.
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
    await tx`SELECT set_config('statement_timeout', '0', true)`;
    await tx`
      INSERT INTO chains (chain_id, account_id, mode, sequence, hash)
      SELECT chain_id, ${owner.accountId}, ${owner.mode}, 0, NULL FROM unnest(${[...passportIds]}::text[]) AS new (chain_id)
      ON CONFLICT DO NOTHING`;
    await tx`
      INSERT INTO attestations (
        attestation_id, chain_id, sequence, previous_hash, hash, signature, signing_key_id, passport_id, gate_id, decision,
        reason, request_hash, permission_key, amount_micro_usd, constraints_evaluated, pii, test, source, timestamp_ms,
        latest_ms, reader_account_id, reader_mode)
      SELECT
        'att_' || lpad(number::text, 26, '0'), passport_id, turn + 1,
        CASE WHEN turn > 0 THEN 'sha256:' || lpad(to_hex(number - ${passportIds.length}), 64, '0') END,
        'sha256:' || lpad(to_hex(number), 64, '0'), repeat('A', 86), repeat('A', 43), passport_id, gate_id,
        CASE WHEN number % ${suspendEvery} = 7 THEN 'SUSPEND' WHEN number % ${blockEvery} = 3 THEN 'BLOCK' ELSE 'PERMIT' END,
        CASE WHEN number % ${blockEvery} = 3 THEN 'spend_limit_exceeded' END,
        'sha256:' || repeat('0', 64), CASE WHEN number % ${refundEvery} = 5 THEN 'orders:refund' ELSE 'orders:create' END, 12500000,
        '{passport,trust_level,freshness,issuer,permission,spend_limit}'::text[], '[]'::jsonb, false,
        'side_' || repeat('0', 26), ${startMs} + number, ${startMs} + number, ${owner.accountId}, ${owner.mode}
      FROM generate_series(${from}::bigint, ${from + count - 1}::bigint) AS number
      CROSS JOIN LATERAL (
        SELECT
          number / ${passportIds.length} AS turn,
          (${[...passportIds]}::text[])[1 + number % ${passportIds.length}] AS passport_id,
          (${[...gateIds]}::text[])[1 + (number / ${passportIds.length}) % ${gateIds.length}] AS gate_id
      ) AS placed
      ORDER BY number`;
    await tx`
      UPDATE chains SET sequence = last.sequence, hash = last.hash, latest_ms = last.latest_ms
      FROM (
        SELECT DISTINCT ON (chain_id) chain_id, sequence, hash, latest_ms FROM attestations
        WHERE timestamp_ms >= ${startMs + from + count - passportIds.length} AND chain_id = ANY(${[...passportIds]}::text[])
        ORDER BY chain_id, sequence DESC
      ) AS last
      WHERE chains.chain_id = last.chain_id`;
  });
}
