import type { AccountId, AttestationId, GateId, PassportId } from '../../shared/model/ids.ts';
import type { Mode } from '../../shared/model/mode.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { Transaction } from '../base/database.ts';
import type { UnitsSource } from '../book/held-units.ts';
import { distinct } from '../storage/distinct.ts';
import { together } from '../storage/together.ts';
import type { NewRecord } from './append-records.ts';
import { earliestOf, uuidOfId } from './id-uuid.ts';
import { decisionsOf, recordColumns, type StoredRecord } from './record-row.ts';

/**
 * Stored records with their accounts, as needed for a further record of the same decision. Without a gate,
 * the passport's owner stands in for the requesting account, which may read neither record.
 */
export async function findStoredRecords(
  tx: Transaction,
  ids: readonly AttestationId[],
): Promise<ReadonlyMap<AttestationId, NewRecord>> {
  if (ids.length === 0) return new Map();
  const rows = await tx<(StoredRecord & { money_from: readonly UnitsSource[] | null })[]>`
    SELECT ${tx([...recordColumns, 'money_from'])} FROM records
    WHERE attestation_id = ANY(${ids.map(uuidOfId)}::uuid[]) AND position >= records_from(${earliestOf(ids)})`;
  const records = await decisionsOf(tx, rows);
  const [passports, gates] = await together([
    () => passportOwners(tx, distinct(records.map(({ passportId }) => passportId))),
    () => gateOwners(tx, distinct(records.map(({ gateId }) => gateId))),
  ]);
  return new Map(
    records.flatMap((record, place) => {
      const moneyFrom = rows[place]?.money_from ?? [];
      const passportOwner = (record.passportId && passports.get(record.passportId)) ?? null;
      const gateOwner = (record.gateId && gates.get(record.gateId)) ?? passportOwner;
      return gateOwner === null ? [] : [[record.id, { record, passportOwner, gateOwner, moneyFrom }]];
    }),
  );
}

interface OwnedRow<Id> {
  readonly id: Id;
  readonly accountId: AccountId;
  readonly mode: Mode;
}

const byId = <Id>(rows: readonly OwnedRow<Id>[]): ReadonlyMap<Id, Owner> =>
  new Map(rows.map(({ id, accountId, mode }) => [id, { accountId, mode }]));

const passportOwners = async (tx: Transaction, ids: readonly PassportId[]) =>
  byId(
    await tx<OwnedRow<PassportId>[]>`
      SELECT passport_id AS id, account_id AS "accountId", mode FROM passports WHERE passport_id = ANY(${[...ids]}::text[])`,
  );

const gateOwners = async (tx: Transaction, ids: readonly GateId[]) =>
  byId(
    await tx<OwnedRow<GateId>[]>`
      SELECT gate_id AS id, account_id AS "accountId", mode FROM gates WHERE gate_id = ANY(${[...ids]}::text[])`,
  );
