import type { PlacedRecord } from '../../shared/attestation/record.ts';
import { assert, must } from '../../shared/errors/assert.ts';
import { isId } from '../../shared/model/ids.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Transaction } from '../base/database.ts';
import { distinct } from '../storage/distinct.ts';
import { ownerName } from '../storage/stored-owner.ts';
import { uuidOfId } from './id-uuid.ts';
import { numberNames } from './record-names.ts';
import { letterOf } from './record-row.ts';

export interface NewAttestation {
  /** In its place; its signature travels beside it. */
  readonly attestation: PlacedRecord;
  /** The number of its chain. */
  readonly chain: number;
  /** The latest time of its chain up to this record. */
  readonly latestMs: UnixMillis;
  readonly reader: Owner;
  /** Null: there is no other. */
  readonly otherReader: Owner | null;
}

/** One column of the table. */
interface Column {
  readonly name: string;
  /** As which its values travel. None of them holds a character that an array has to quote. */
  readonly type: 'bigint' | 'int' | 'text' | 'uuid' | '"char"' | 'boolean';
  readonly read: (row: NewAttestation, numbers: NumberOf) => string | number | boolean | null;
}

/** The number of a name. */
type NumberOf = (name: string) => number;

const column = (name: string, type: Column['type'], read: Column['read']): Column => ({ name, type, read });

/**
 * Columns that travel as one array each. An array is one text that is joined here: the driver's own takes
 * five times as long for each element.
 */
const columns: readonly Column[] = [
  column('sequence', 'bigint', ({ attestation }) => attestation.sequence),
  column('timestamp_ms', 'bigint', ({ attestation }) => attestation.timestampMs),
  column('latest_ms', 'bigint', ({ attestation, latestMs }) =>
    latestMs === attestation.timestampMs ? null : latestMs,
  ),
  column('amount_micro_usd', 'bigint', ({ attestation }) => attestation.amountMicroUsd),
  column('attestation_id', 'uuid', ({ attestation }) => uuidOfId(attestation.id)),
  column('chain', 'int', ({ chain }) => chain),
  column('gate', 'int', ({ attestation: { gateId } }, number) => (gateId === null ? null : number(gateId))),
  column('reader', 'int', ({ reader }, number) => number(ownerName(reader))),
  column('other_reader', 'int', ({ otherReader }, number) =>
    otherReader === null ? null : number(ownerName(otherReader)),
  ),
  column('source', 'int', ({ attestation }, number) => number(attestation.source)),
  column('source_account', 'int', ({ attestation: { sourceAccount } }, number) =>
    sourceAccount === null ? null : number(sourceAccount),
  ),
  column('signing_key', 'int', ({ attestation }, number) => number(attestation.signingKeyId)),
  column('checks', 'int', ({ attestation }, number) => number(checksName(attestation))),
  column('reason', 'int', ({ attestation: { reason } }, number) => (reason === null ? null : number(reason))),
  column('decision', '"char"', ({ attestation }) => letterOf[attestation.decision]),
  column('test', 'boolean', ({ attestation }) => attestation.test),
  column('permission_key', 'text', ({ attestation }) => attestation.permissionKey),
  column('resolution', 'text', ({ attestation }) => attestation.resolution),
  column('refers_to', 'text', ({ attestation }) => attestation.refersTo),
];

/** Of a record without one before it. */
const noHash = '0'.repeat(64);
const hashTextStart = 'sha256:'.length;

/**
 * What travels as the hex of all records, one after the other, with the bytes that each has there. The
 * column is their part of it.
 */
const packedColumns = [
  { name: 'request_hash', bytes: 32, isNull: '' },
  { name: 'previous_hash', bytes: 32, isNull: 'sequence = 1' },
  { name: 'signature', bytes: 64, isNull: '' },
] as const;

const packed = (rows: readonly NewAttestation[], signatures: Buffer): readonly string[] => [
  rows.map(({ attestation }) => attestation.requestHash.slice(hashTextStart)).join(''),
  rows
    .map(
      ({ attestation: { previousAttestationHash } }) =>
        previousAttestationHash?.slice(hashTextStart) ?? noHash,
    )
    .join(''),
  signatures.toString('hex'),
];

/**
 * The statement around its parameters: packed bytes, an array for each column, and the findings. Made once,
 * as if it were written out. Packed bytes are decoded in a subquery of their own, which PostgreSQL runs once
 * and not for each record.
 */
const statement = ((): TemplateStringsArray => {
  const names = columns.map(({ name }) => name).join(', ');
  const texts = [
    `INSERT INTO records (${names}, ${packedColumns.map(({ name }) => name).join(', ')}, pii) SELECT ${names}`,
  ];
  const add = (text: string) => {
    texts[texts.length - 1] += text;
  };
  for (const { bytes, isNull } of packedColumns) {
    add(`, ${isNull === '' ? '' : `CASE WHEN NOT ${isNull} THEN `}substring((SELECT decode(`);
    texts.push(
      `::text, 'hex')) FROM ${bytes} * (place::int - 1) + 1 FOR ${bytes})${isNull === '' ? '' : ' END'}`,
    );
  }
  add(', pii::jsonb FROM unnest(');
  for (const { type } of columns) texts.push(`::${type}[], `);
  texts.push(`::text[]) WITH ORDINALITY AS new (${names}, pii, place) ORDER BY place`);
  return Object.assign(texts, { raw: texts });
})();

/**
 * Stores linked records with one statement; their positions rise in the order given. `signatures`: 64 bytes
 * for each, in the same order.
 */
export async function insertAttestations(
  tx: Transaction,
  rows: readonly NewAttestation[],
  signatures: Buffer,
): Promise<void> {
  const numbers = await numberNames(tx, distinct(rows.flatMap(namesOf)));
  const number: NumberOf = (name) => must(numbers.get(name), 'each name of a record was numbered');
  const findings = rows.some(({ attestation }) => attestation.pii.length > 0)
    ? rows.map(({ attestation: { pii } }) => (pii.length === 0 ? null : JSON.stringify(pii)))
    : null;
  const bytes = packed(rows, signatures);
  packedColumns.forEach((each, i) => {
    assert(bytes[i]?.length === rows.length * each.bytes * 2, 'hashes and signatures have their length');
  });
  await tx(
    statement,
    ...bytes,
    ...columns.map(({ read }) => arrayOf(rows.map((row) => read(row, number)))),
    findings,
  );
}

/** `{1,2,NULL}`; null where all are: that reads as no value for each. */
const arrayOf = (values: readonly (string | number | boolean | null)[]): string | null =>
  values.every((value) => value === null) ? null : `{${values.map((value) => value ?? 'NULL').join()}}`;

function namesOf({ attestation, reader, otherReader }: NewAttestation): (string | null)[] {
  const { chainId, passportId } = attestation;
  assert(passportId === (isId('pass', chainId) ? chainId : null), 'a passport has its records in its chain');
  return [
    ownerName(reader),
    otherReader === null ? null : ownerName(otherReader),
    attestation.gateId,
    attestation.source,
    attestation.sourceAccount,
    attestation.signingKeyId,
    attestation.reason,
    checksName(attestation),
  ];
}

const checksName = ({ constraintsEvaluated }: PlacedRecord): string => constraintsEvaluated.join(',');
