import type { PlacedRecord } from '../../shared/attestation/record.ts';
import { assert, must } from '../../shared/errors/assert.ts';
import type { AttestationRecord } from '../../shared/model/attestation.ts';
import { isId } from '../../shared/model/ids.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { ShippedFact } from '../../shared/wire/evidence/fact.ts';
import type { Transaction } from '../base/database.ts';
import type { UnitsSource } from '../book/held-units.ts';
import { CopyRows, copyIn, copyStatement } from '../storage/copy-rows.ts';
import { ownerName } from '../storage/stored-owner.ts';
import { together } from '../storage/together.ts';
import { insertFacts } from './facts-store.ts';
import { uuidBytes, uuidBytesOfId } from './id-uuid.ts';
import type { RecordNames } from './record-names.ts';
import { digitOf, letterOf, letterOfProof } from './record-row.ts';

export interface NewAttestation {
  /** The linked record; its signature is passed separately. */
  readonly attestation: PlacedRecord;
  /** Number of the chain. */
  readonly chain: number;
  /** Latest time of the chain up to this record. */
  readonly latestMs: UnixMillis;
  readonly reader: Owner;
  /** Null: no second reader. */
  readonly otherReader: Owner | null;
  /** See NewRecord. */
  readonly moneyFrom: readonly UnitsSource[];
  readonly facts: readonly ShippedFact[];
}

/** The numbers of names. */
interface Numbers {
  readonly of: (name: string) => number;
  readonly ofOwner: (owner: Owner) => number;
  /** Of texts with commas between them. */
  readonly ofList: (list: readonly string[]) => number;
}

/** One column of the table. */
interface Column {
  readonly name: string;
  readonly write: (to: CopyRows, row: NewAttestation, numbers: Numbers) => void;
}

const column = (name: string, write: Column['write']): Column => ({ name, write });

const hashTextStart = 'sha256:'.length;
const hashBytes = 32;
const signatureBytes = 64;
/** Size of a typical row, with separators. */
const rowBytes = 380;

const writeHash = (to: CopyRows, hash: string): void => to.hex(hash.slice(hashTextStart), hashBytes);
const writeName = (to: CopyRows, name: string | null, numbers: Numbers): void =>
  name === null ? to.null() : to.int(numbers.of(name));
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
  column('gate', (to, { attestation }, numbers) => writeName(to, attestation.gateId, numbers)),
  column('reader', (to, { reader }, numbers) => to.int(numbers.ofOwner(reader))),
  column('other_reader', (to, { otherReader }, numbers) =>
    otherReader === null ? to.null() : to.int(numbers.ofOwner(otherReader)),
  ),
  column('source', (to, { attestation }, numbers) => writeName(to, attestation.source, numbers)),
  column('source_account', (to, { attestation }, numbers) =>
    writeName(to, attestation.sourceAccount, numbers),
  ),
  column('signing_key', (to, { attestation }, numbers) => writeName(to, attestation.signingKeyId, numbers)),
  column('checks', (to, { attestation }, numbers) =>
    to.int(numbers.ofList(attestation.constraintsEvaluated)),
  ),
  column('reason', (to, { attestation }, numbers) => writeName(to, attestation.reason, numbers)),
  column('decision', (to, { attestation }) => to.char(letterOf[attestation.decision])),
  column('test', (to, { attestation }) => to.boolean(attestation.test)),
  column('request_hash', (to, { attestation }) => writeHash(to, attestation.requestHash)),
  column('previous_hash', (to, { attestation: { previousAttestationHash } }) =>
    previousAttestationHash === null ? to.null() : writeHash(to, previousAttestationHash),
  ),
  column('permission_key', (to, { attestation }) => writeText(to, attestation.permissionKey)),
  column('resolution', (to, { attestation }) => writeText(to, attestation.resolution)),
  column('refers_to', (to, { attestation }) => writeText(to, attestation.refersTo)),
  column('asserted', (to, { attestation: { asserted } }) =>
    asserted === null ? to.null() : to.boolean(asserted),
  ),
  column('trust_level', (to, { attestation: { trustLevel } }) =>
    trustLevel === null ? to.null() : to.char(digitOf[trustLevel]),
  ),
  column('policy', (to, { attestation }, numbers) => writeName(to, attestation.policyHash, numbers)),
  column('state_age_ms', (to, { attestation: { stateAgeMs } }) =>
    stateAgeMs === null ? to.null() : to.int(stateAgeMs),
  ),
  column('domain', (to, { attestation }) => writeText(to, attestation.domain)),
  column('approval_id', (to, { attestation }) => writeText(to, attestation.approvalId)),
  column('wallet', (to, { attestation }, numbers) => writeName(to, attestation.walletId, numbers)),
  column('hold_expires_ms', (to, { attestation: { holdExpiresAtMs } }) =>
    holdExpiresAtMs === null ? to.null() : to.bigint(holdExpiresAtMs),
  ),
  column('proof', (to, { attestation: { proof } }) =>
    proof === null ? to.null() : to.char(letterOfProof[proof]),
  ),
  column('wallet_path', (to, { attestation: { walletPath } }, numbers) =>
    walletPath === null ? to.null() : to.int(numbers.ofList(walletPath)),
  ),
  column('carried', (to, { attestation: { carried } }) =>
    writeText(to, carried === null ? null : JSON.stringify(carried)),
  ),
  column('money_from', (to, { moneyFrom }) => (moneyFrom.length === 0 ? to.null() : to.jsonb(moneyFrom))),
  column('pii', (to, { attestation: { pii } }) => (pii.length === 0 ? to.null() : to.jsonb(pii))),
];

const statement = copyStatement('records', [...columns.map(({ name }) => name), 'signature']);

/**
 * Builds the COPY that stores linked records in one statement, and another one for their facts; positions
 * rise in the order given.
 * `signatures`: 64 bytes each, in the same order. `numbers`: for all names of `namesOf`.
 */
export function insertAttestations(
  rows: readonly NewAttestation[],
  { signatures, numbers: known }: { readonly signatures: Buffer; readonly numbers: RecordNames },
): (tx: Transaction) => PromiseLike<unknown> {
  assert(signatures.length === rows.length * signatureBytes, 'each record has its signature');
  const nameOf = sharedNames();
  const of = (name: string) => must(known.get(name), 'each name of a record was numbered');
  const numbers: Numbers = {
    of,
    ofOwner: (owner) => of(nameOf.owner(owner)),
    ofList: (list) => of(nameOf.list(list)),
  };
  const copied = new CopyRows(rows.length * rowBytes);
  rows.forEach((row, place) => {
    copied.row(columns.length + 1);
    for (const { write } of columns) write(copied, row, numbers);
    copied.bytes(signatures, place * signatureBytes, signatureBytes);
  });
  const bytes = copied.take();
  const facts = insertFacts(rows, numbers.ofOwner);
  if (facts === null) return (tx) => copyIn(tx, statement, bytes);
  return (tx) => together([() => copyIn(tx, statement, bytes), () => facts(tx)]);
}

/** The distinct names in these records. `readers`: of the records, in the same order. */
export function namesOf(
  records: readonly { readonly record: AttestationRecord }[],
  readers: readonly Pick<NewAttestation, 'reader' | 'otherReader'>[],
  signingKeyId: string,
): readonly string[] {
  const nameOf = sharedNames();
  const names = new Set([signingKeyId]);
  for (const [place, { record }] of records.entries()) {
    const { reader, otherReader } = must(readers[place], 'each record has readers');
    const { chainId, passportId, gateId, source, sourceAccount, reason, constraintsEvaluated } = record;
    const { policyHash, walletId, walletPath } = record;
    assert(
      passportId === (isId('pass', chainId) ? chainId : null),
      'a passport has its records in its chain',
    );
    names.add(nameOf.owner(reader)).add(nameOf.list(constraintsEvaluated));
    names.add(source);
    if (otherReader !== null) names.add(nameOf.owner(otherReader));
    if (gateId !== null) names.add(gateId);
    if (sourceAccount !== null) names.add(sourceAccount);
    if (reason !== null) names.add(reason);
    if (policyHash !== null) names.add(policyHash);
    if (walletId !== null) names.add(walletId);
    if (walletPath !== null) names.add(nameOf.list(walletPath));
  }
  return [...names];
}

/** Names that records share, each built once per batch. */
interface SharedNames {
  readonly owner: (owner: Owner) => string;
  readonly list: (list: readonly string[]) => string;
}

const sharedNames = (): SharedNames => ({
  owner: onceEach(ownerName),
  list: onceEach((list) => list.join(',')),
});

function onceEach<Of extends object>(make: (of: Of) => string): (of: Of) => string {
  const made = new Map<Of, string>();
  return (of) => {
    const known = made.get(of);
    if (known !== undefined) return known;
    const name = make(of);
    made.set(of, name);
    return name;
  };
}
