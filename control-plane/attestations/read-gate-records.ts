import type { AttestationRecord } from '../../shared/model/attestation.ts';
import type { Outcome } from '../../shared/model/decision.ts';
import type { GateId } from '../../shared/model/ids.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Database, Transaction } from '../base/database.ts';
import { readStale } from '../storage/replica-reads.ts';
import { ownerName } from '../storage/stored-owner.ts';
import type { Place } from './list-attestations.ts';
import { findNumbers } from './record-names.ts';
import { decisionsOf, letterOf, recordColumns, type StoredRecord } from './record-row.ts';

/** Records that are read at once: some milliseconds of the database, and of the event loop here. */
const pageRows = 500;

/** A record, and its place among all of one time. */
export interface PlacedRecord {
  readonly record: AttestationRecord;
  readonly position: number;
}

/**
 * The records of a gate of the owner with one decision, in the order of time, those of before `untilMs`. Each
 * page is a read of its own, at the replica of the database where there is one, so nothing is held between
 * two of them. Records that arrive behind the page that was read are left out.
 */
export async function* readGateRecords(
  sql: Database,
  owner: Owner,
  asked: {
    readonly gateId: GateId;
    readonly decision: Outcome;
    readonly sinceMs: UnixMillis;
    readonly untilMs: UnixMillis;
  },
): AsyncGenerator<readonly PlacedRecord[]> {
  for (let after: Place = { timestampMs: asked.sinceMs, position: -1 }; ; ) {
    const page = await readStale(sql, owner.accountId, (at) => readPage(at, owner, { ...asked, after }));
    yield page;
    const last = page.at(-1);
    if (last === undefined || page.length < pageRows) return;
    after = { timestampMs: last.record.timestampMs, position: last.position };
  }
}

async function readPage(
  sql: Database | Transaction,
  owner: Owner,
  asked: Parameters<typeof readGateRecords>[2] & { readonly after: Place },
): Promise<readonly PlacedRecord[]> {
  const { gateId, decision, sinceMs, untilMs, after } = asked;
  const name = ownerName(owner);
  const numbers = await findNumbers(sql, [name, gateId]);
  const [ownerNumber, gate] = [numbers.get(name), numbers.get(gateId)];
  if (ownerNumber === undefined || gate === undefined) return [];
  const place = sql`record_place(timestamp_ms, position)`;
  const placeOf = (timeMs: number, position: number) =>
    sql`record_place(${timeMs}::bigint, ${position}::bigint)`;
  const afterPlace = placeOf(after.timestampMs, Math.max(0, after.position));
  const rows = await sql<StoredRecord[]>`
    SELECT ${sql(recordColumns)} FROM records
    WHERE gate = ${gate} AND decision = ${letterOf[decision]} AND position >= records_from(${sinceMs})
      AND ${place} >= ${afterPlace} AND ${place} < ${placeOf(untilMs, 0)}
      AND (${place} > ${afterPlace} OR position > ${after.position})
      AND (reader = ${ownerNumber} OR other_reader = ${ownerNumber})
    ORDER BY ${place}, position LIMIT ${pageRows}`;
  const records = await decisionsOf(sql, rows);
  return rows.flatMap(({ position }, at) => {
    const record = records[at];
    return record === undefined ? [] : [{ record, position }];
  });
}
