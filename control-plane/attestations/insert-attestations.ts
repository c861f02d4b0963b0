import type { Attestation } from '../../shared/model/attestation.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Transaction } from '../base/database.ts';

export interface NewAttestation {
  readonly attestation: Attestation;
  /** The latest time of its chain up to this record. */
  readonly latestMs: UnixMillis;
  readonly reader: Owner;
  /** Null: there is no other. */
  readonly otherReader: Owner | null;
}

/** One column of the table. */
interface Column {
  readonly name: string;
  /** As which its values travel. */
  readonly type: 'text' | 'bigint' | 'int';
  readonly read: (row: NewAttestation) => string | number | null;
  /** SQL that makes the column's value of what travelled, which has the name of the column. */
  readonly stored: string;
}

const column = (name: string, type: Column['type'], read: Column['read'], stored = name): Column => ({
  name,
  type,
  read,
  stored,
});

/**
 * Every column but `position`. Names of checks travel joined, because an array of arrays would come out flat.
 */
const columns: readonly Column[] = [
  column('attestation_id', 'text', ({ attestation }) => attestation.id),
  column('chain_id', 'text', ({ attestation }) => attestation.chainId),
  column('sequence', 'bigint', ({ attestation }) => attestation.sequence),
  column('previous_hash', 'text', ({ attestation }) => attestation.previousAttestationHash),
  column('hash', 'text', ({ attestation }) => attestation.hash),
  column('signature', 'text', ({ attestation }) => attestation.signature),
  column('signing_key_id', 'text', ({ attestation }) => attestation.signingKeyId),
  column('passport_id', 'text', ({ attestation }) => attestation.passportId),
  column('gate_id', 'text', ({ attestation }) => attestation.gateId),
  column('decision', 'text', ({ attestation }) => attestation.decision),
  column('reason', 'text', ({ attestation }) => attestation.reason),
  column('request_hash', 'text', ({ attestation }) => attestation.requestHash),
  column('permission_key', 'text', ({ attestation }) => attestation.permissionKey),
  column('amount_micro_usd', 'bigint', ({ attestation }) => attestation.amountMicroUsd),
  column(
    'constraints_evaluated',
    'text',
    ({ attestation }) => attestation.constraintsEvaluated.join(','),
    "string_to_array(constraints_evaluated, ',')",
  ),
  column('pii', 'text', ({ attestation }) => JSON.stringify(attestation.pii), 'pii::jsonb'),
  column('test', 'int', ({ attestation }) => (attestation.test ? 1 : 0), 'test = 1'),
  column('resolution', 'text', ({ attestation }) => attestation.resolution),
  column('refers_to', 'text', ({ attestation }) => attestation.refersTo),
  column('source', 'text', ({ attestation }) => attestation.source),
  column('source_account', 'text', ({ attestation }) => attestation.sourceAccount),
  column('timestamp_ms', 'bigint', ({ attestation }) => attestation.timestampMs),
  column('latest_ms', 'bigint', ({ latestMs }) => latestMs),
  column('reader_account_id', 'text', ({ reader }) => reader.accountId),
  column('reader_mode', 'text', ({ reader }) => reader.mode),
  column('other_reader_account_id', 'text', ({ otherReader }) => otherReader?.accountId ?? null),
  column('other_reader_mode', 'text', ({ otherReader }) => otherReader?.mode ?? null),
];

/** The statement around its arrays, one for each column: made once, as if it were written out. */
const statement = ((): TemplateStringsArray => {
  const names = columns.map(({ name }) => name).join(', ');
  const texts = [
    `INSERT INTO attestations (${names})
    SELECT ${columns.map(({ stored }) => stored).join(', ')}
    FROM unnest(`,
    ...columns.map(({ type }, place) => `::${type}[]${place + 1 < columns.length ? ', ' : ''}`),
  ];
  texts.push(`${texts.pop()}) WITH ORDINALITY AS new (${names}, place) ORDER BY place`);
  return Object.assign(texts, { raw: texts });
})();

/**
 * Stores linked records with one statement; their positions rise in the order given. Arrays of one column
 * each make the fastest insert there is but COPY (design: 60,000 rows a second).
 */
export async function insertAttestations(tx: Transaction, rows: readonly NewAttestation[]): Promise<void> {
  await tx(statement, ...columns.map(({ read }) => rows.map(read)));
}
