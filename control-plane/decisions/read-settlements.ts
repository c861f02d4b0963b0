import type { AttestationId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Transaction } from '../base/database.ts';
import { decisionsLimits } from './limits.ts';
import type { SettlementId, SettlementSource } from './settlement.ts';

/** A settlement that may answer another request. */
export interface Reading {
  readonly reads: SettlementId;
  readonly readerId: AttestationId;
  readonly source: SettlementSource;
}

/**
 * Registers readers: from here on a settlement is voided only after all of its readers. Readers do not
 * exclude each other. Returns the readers that came too late, because the settlement or the reading was
 * voided before. A settlement without a row cannot be voided. After `readersMax` readers a settlement is
 * permanent and further readers need no row, so rows are bounded.
 */
export async function readSettlements(
  tx: Transaction,
  readings: readonly Reading[],
  nowMs: UnixMillis,
): Promise<ReadonlySet<string>> {
  if (readings.length === 0) return new Set();
  const found = await tx<{ id: SettlementId; isVoid: boolean; isAnswered: boolean }[]>`
    SELECT settlement_id AS id, is_void AS "isVoid", is_answered AS "isAnswered" FROM settlements
    WHERE settlement_id = ANY(${readings.map(({ reads }) => reads)}::text[])
    ORDER BY passport_id, scope_id, key_hash, settlement_id FOR SHARE`;
  const known = new Map(found.map((row) => [row.id, row]));
  const gone = new Set<string>();
  const open: Reading[] = [];
  for (const reading of readings) {
    const row = known.get(reading.reads);
    if (row?.isVoid === true) gone.add(reading.readerId);
    else if (row?.isAnswered === false) open.push(reading);
  }
  if (open.length === 0) return gone;
  const rows = await tx<{ readerId: string }[]>`
    INSERT INTO settlements AS s (settlement_id, reads, source, is_answered, expires_at_ms)
    SELECT reader, read, source, false, ${nowMs + decisionsLimits.permitKeyKeptMs}::bigint
    FROM unnest(
      ${open.map(({ readerId }) => readerId)}::text[],
      ${open.map(({ reads }) => reads)}::text[],
      ${open.map(({ source }) => source)}::text[]
    ) AS new (reader, read, source)
    ORDER BY reader
    ON CONFLICT (settlement_id) DO UPDATE SET reads = s.reads
    WHERE s.reads = excluded.reads AND s.source = excluded.source AND NOT s.is_void
    RETURNING settlement_id AS "readerId"`;
  const reading = new Set(rows.map(({ readerId }) => readerId));
  for (const { readerId } of open) if (!reading.has(readerId)) gone.add(readerId);
  // Skipped while others read the row: two transactions that share its lock must not both wait to change it.
  await tx`
    UPDATE settlements SET is_answered = true WHERE settlement_id = ANY (ARRAY(
      SELECT settlement_id FROM settlements s WHERE settlement_id = ANY(${open.map(({ reads }) => reads)}::text[])
        AND ${readersMax} <= (SELECT count(*) FROM settlements r WHERE r.reads = s.settlement_id AND NOT r.is_void)
      FOR UPDATE SKIP LOCKED))`;
  return gone;
}

/**
 * Locks all settlements that this transaction will read, in the order of claims. Locking them one by one, or
 * after leases, could deadlock with a void of them.
 */
export async function holdSettlements(tx: Transaction, ids: readonly SettlementId[]): Promise<void> {
  if (ids.length === 0) return;
  await tx`
    SELECT FROM settlements WHERE settlement_id = ANY(${[...ids]}::text[])
    ORDER BY passport_id, scope_id, key_hash, settlement_id FOR SHARE`;
}

const readersMax = 16;

/** Removes readings of this transaction that no answer rests on. */
export async function dropReadings(tx: Transaction, readerIds: readonly AttestationId[]): Promise<void> {
  if (readerIds.length === 0) return;
  await tx`DELETE FROM settlements WHERE settlement_id = ANY(${[...readerIds]}::text[]) AND reads IS NOT NULL`;
}
