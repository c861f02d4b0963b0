import { must } from '../../shared/errors/assert.ts';
import type { AttestationId } from '../../shared/model/ids.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { type OpeningFact, renderFact, type ShippedFact } from '../../shared/wire/evidence/fact.ts';
import type { Database, Transaction } from '../base/database.ts';
import { CopyRows, copyIn, copyStatement } from '../storage/copy-rows.ts';
import { ownerName } from '../storage/stored-owner.ts';
import type { RecordMonth } from './archive-store.ts';
import { timeOfId, uuidBytes, uuidBytesOfId, uuidOfId } from './id-uuid.ts';
import { attestationsLimits } from './limits.ts';

/*
 * What opens the commitments of records (contract §9), beside them in `attestation_facts`: one row for each
 * record and account that may read it. Written with the record, and removed with its month, after
 * `facts_days`, or by an erasure.
 */

/** A record that is stored. */
interface RecordWithFacts {
  readonly attestation: { readonly id: AttestationId };
  /** Number of the chain. */
  readonly chain: number;
  readonly reader: Owner;
  readonly otherReader: Owner | null;
  readonly facts: readonly ShippedFact[];
}

/** With the facts that belong to it; `owner` reads them. */
interface FactRow {
  readonly of: RecordWithFacts;
  readonly owner: Owner;
  readonly facts: readonly OpeningFact[];
}

const statement = copyStatement('attestation_facts', ['owner', 'attestation_id', 'chain', 'facts']);
/** Five short values with their salts. */
const rowBytes = 512;

/** Stores the facts of records that are stored by the same transaction. Null: they have none. */
export function insertFacts(
  records: readonly RecordWithFacts[],
  numberOf: (owner: Owner) => number,
): ((tx: Transaction) => PromiseLike<unknown>) | null {
  const rows = records.flatMap(rowsOf);
  if (rows.length === 0) return null;
  const copied = new CopyRows(rows.length * rowBytes);
  for (const { of, owner, facts } of rows) {
    copied.row(4);
    copied.int(numberOf(owner));
    copied.bytes(uuidBytesOfId(of.attestation.id), 0, uuidBytes);
    copied.int(of.chain);
    copied.text(JSON.stringify(facts));
  }
  const bytes = copied.take();
  return (tx) => copyIn(tx, statement, bytes);
}

/** Of both where gate and passport are of one account. */
function rowsOf(of: RecordWithFacts): readonly FactRow[] {
  const { facts, reader, otherReader } = of;
  if (facts.length === 0) return [];
  if (otherReader === null) return [{ of, owner: reader, facts: facts.map(openingOf) }];
  const ofGate = facts.filter((fact) => fact.of !== 'passport');
  const ofPassport = facts.filter((fact) => fact.of !== undefined);
  return [
    { of, owner: otherReader, facts: ofGate.map(openingOf) },
    { of, owner: reader, facts: ofPassport.map(openingOf) },
  ].filter((row) => row.facts.length > 0);
}

const openingOf = ({ of: _, ...opening }: ShippedFact): OpeningFact => opening;

/** The number of an owner in these tables; null: it may read nothing yet. */
export async function factOwner(sql: Database | Transaction, owner: Owner): Promise<number | null> {
  const [row] = await sql<{ number: number }[]>`
    SELECT number FROM record_names WHERE name = ${ownerName(owner)}`;
  return row?.number ?? null;
}

/** Of one record, as it is answered. */
export async function readFacts(sql: Database | Transaction, owner: Owner, id: AttestationId) {
  const number = await factOwner(sql, owner);
  const [row] = await sql<{ facts: string }[]>`
    SELECT facts FROM attestation_facts WHERE owner = ${number} AND attestation_id = ${uuidOfId(id)}
      AND month >= (records_from(${timeOfId(id)}) >> 36)`;
  return renderFacts(id, row?.facts ?? '[]');
}

/** `text`: as stored. */
export const renderFacts = (attestation_id: AttestationId, text: string) => ({
  attestation_id,
  facts: (JSON.parse(text) as OpeningFact[]).map(renderFact),
});

/** The facts of a row `record` of records, as the column `facts`; its month is the same or the one after. */
export const joinFacts = (tx: Transaction, owner: number) => tx`
  LEFT JOIN LATERAL (
    SELECT kept.facts FROM attestation_facts AS kept
    WHERE kept.owner = ${owner} AND kept.attestation_id = record.attestation_id
      AND kept.month BETWEEN (record.position >> 36) AND (record.position >> 36) + 1
  ) AS kept ON true`;

/** Partitions that have facts of records from before that month alone, oldest first. */
export const factPartitionsBefore = (sql: Database, before: RecordMonth) =>
  sql<{ name: string; isDetaching: boolean }[]>`
    SELECT name, "isDetaching" FROM (
      SELECT relname AS name, inhdetachpending AS "isDetaching",
        (regexp_match(pg_get_expr(relpartbound, pg_class.oid), 'TO \\(''?(\\d+)'))[1]::bigint AS ends
      FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid WHERE inhparent = 'attestation_facts'::regclass
    ) AS partitions
    WHERE ends <= ${before} ORDER BY "isDetaching" DESC, ends`;

/** Days; null: as long as their records. */
export async function readFactRetention(sql: Database | Transaction, owner: Owner): Promise<number | null> {
  const [row] = await sql<{ days: number }[]>`
    SELECT days FROM fact_retentions WHERE account_id = ${owner.accountId} AND mode = ${owner.mode}`;
  return row?.days ?? null;
}

export async function writeFactRetention(tx: Transaction, owner: Owner, days: number | null): Promise<void> {
  await (days === null
    ? tx`DELETE FROM fact_retentions WHERE account_id = ${owner.accountId} AND mode = ${owner.mode}`
    : tx`
      INSERT INTO fact_retentions (account_id, mode, days) VALUES (${owner.accountId}, ${owner.mode}, ${days})
      ON CONFLICT (account_id, mode) DO UPDATE SET days = excluded.days`);
}

/**
 * Removes the facts that their owners keep no longer, some rows with each statement. An id begins with the
 * time of its decision.
 */
export async function trimFacts(sql: Database, nowMs: UnixMillis): Promise<void> {
  const { factRowsMax: rowsMax } = attestationsLimits;
  const owners = await sql<{ number: number; days: number }[]>`
    SELECT number, days FROM fact_retentions JOIN record_names ON name = account_id || ' ' || mode`;
  for (const { number, days } of owners) {
    const [row] = await sql<{ first: string }[]>`
      SELECT rpad(lpad(to_hex(${nowMs}::bigint - ${days}::bigint * 86400000), 12, '0'), 32, '0')::uuid AS first`;
    const { first } = must(row, 'a moment has a row');
    for (let removed: number = rowsMax; removed === rowsMax; ) {
      const rows = await sql`
        DELETE FROM attestation_facts WHERE owner = ${number} AND attestation_id IN (
          SELECT attestation_id FROM attestation_facts WHERE owner = ${number} AND attestation_id < ${first}::uuid
          LIMIT ${rowsMax})`;
      removed = rows.count;
    }
  }
}
