import type { PlacedRecord } from '../../shared/attestation/record.ts';
import { assert, must } from '../../shared/errors/assert.ts';
import { isId } from '../../shared/model/ids.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Transaction } from '../base/database.ts';
import { CopyRows, copyIn } from '../storage/copy-rows.ts';
import { distinct } from '../storage/distinct.ts';
import { ownerName } from '../storage/stored-owner.ts';
import { uuidBytes, uuidBytesOfId } from './id-uuid.ts';
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

/** The number of a name. */
type NumberOf = (name: string) => number;

/** One column of the table. */
interface Column {
  readonly name: string;
  readonly write: (to: CopyRows, row: NewAttestation, numbers: NumberOf) => void;
}

const column = (name: string, write: Column['write']): Column => ({ name, write });

const hashTextStart = 'sha256:'.length;
const hashBytes = 32;
const signatureBytes = 64;
/** Of a usual row, with what is around its values. */
const rowBytes = 320;

const writeHash = (to: CopyRows, hash: string): void => to.hex(hash.slice(hashTextStart), hashBytes);
const writeName = (to: CopyRows, name: string | null, number: NumberOf): void =>
  name === null ? to.null() : to.int(number(name));
const writeText = (to: CopyRows, text: string | null): void => (text === null ? to.null() : to.text(text));

const columns: readonly Column[] = [
  column('sequence', (to, { attestation }) => to.bigint(attestation.sequence)),
  column('timestamp_ms', (to, { attestation }) => to.bigint(attestation.timestampMs)),
  column('latest_ms', (to, { attestation, latestMs }) =>
    latestMs === attestation.timestampMs ? to.null() : to.bigint(latestMs),
  ),
  column('amount_micro_usd', (to, { attestation: { amountMicroUsd } }) =>
    amountMicroUsd === null ? to.null() : to.bigint(amountMicroUsd),
  ),
  column('attestation_id', (to, { attestation }) => to.bytes(uuidBytesOfId(attestation.id), 0, uuidBytes)),
  column('chain', (to, { chain }) => to.int(chain)),
  column('gate', (to, { attestation }, number) => writeName(to, attestation.gateId, number)),
  column('reader', (to, { reader }, number) => writeName(to, ownerName(reader), number)),
  column('other_reader', (to, { otherReader }, number) =>
    writeName(to, otherReader && ownerName(otherReader), number),
  ),
  column('source', (to, { attestation }, number) => writeName(to, attestation.source, number)),
  column('source_account', (to, { attestation }, number) => writeName(to, attestation.sourceAccount, number)),
  column('signing_key', (to, { attestation }, number) => writeName(to, attestation.signingKeyId, number)),
  column('checks', (to, { attestation }, number) => writeName(to, checksName(attestation), number)),
  column('reason', (to, { attestation }, number) => writeName(to, attestation.reason, number)),
  column('decision', (to, { attestation }) => to.char(letterOf[attestation.decision])),
  column('test', (to, { attestation }) => to.boolean(attestation.test)),
  column('request_hash', (to, { attestation }) => writeHash(to, attestation.requestHash)),
  column('previous_hash', (to, { attestation: { previousAttestationHash } }) =>
    previousAttestationHash === null ? to.null() : writeHash(to, previousAttestationHash),
  ),
  column('permission_key', (to, { attestation }) => writeText(to, attestation.permissionKey)),
  column('resolution', (to, { attestation }) => writeText(to, attestation.resolution)),
  column('refers_to', (to, { attestation }) => writeText(to, attestation.refersTo)),
  column('pii', (to, { attestation: { pii } }) => (pii.length === 0 ? to.null() : to.jsonb(pii))),
];

/** Made once, as if it were written out. */
const statement = ((): TemplateStringsArray => {
  const names = [...columns.map(({ name }) => name), 'signature'];
  const text = [`COPY records (${names.join(', ')}) FROM STDIN (FORMAT binary)`];
  return Object.assign(text, { raw: text });
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
  assert(signatures.length === rows.length * signatureBytes, 'each record has its signature');
  const numbers = await numberNames(tx, distinct(rows.flatMap(namesOf)));
  const number: NumberOf = (name) => must(numbers.get(name), 'each name of a record was numbered');
  const copied = new CopyRows(rows.length * rowBytes);
  rows.forEach((row, place) => {
    copied.row(columns.length + 1);
    for (const { write } of columns) write(copied, row, number);
    copied.bytes(signatures, place * signatureBytes, signatureBytes);
  });
  await copyIn(tx, statement, copied.take());
}

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
