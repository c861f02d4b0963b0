import type { AccountId, AttestationId } from '../../shared/model/ids.ts';
import type { Mode } from '../../shared/model/mode.ts';
import type { Transaction } from '../base/database.ts';
import type { NewRecord } from './append-records.ts';
import { type AttestationRow, attestationOf } from './attestation-row.ts';

interface OwnedRow extends AttestationRow {
  readonly passport_account_id: AccountId | null;
  readonly passport_mode: Mode | null;
  readonly gate_account_id: AccountId | null;
  readonly gate_mode: Mode | null;
}

/**
 * Records with the accounts that they concern, as a further record about the same needs them. For a record
 * without a gate the owner of the passport takes the place of the requesting account, which reads neither.
 */
export async function findStoredRecords(
  tx: Transaction,
  ids: readonly AttestationId[],
): Promise<ReadonlyMap<AttestationId, NewRecord>> {
  if (ids.length === 0) return new Map();
  const rows = await tx<OwnedRow[]>`
    SELECT a.*, p.account_id AS passport_account_id, p.mode AS passport_mode, g.account_id AS gate_account_id, g.mode AS gate_mode
    FROM attestations a LEFT JOIN passports p USING (passport_id) LEFT JOIN gates g USING (gate_id)
    WHERE a.attestation_id = ANY(${[...ids]}::text[])`;
  return new Map(
    rows.flatMap((row) => {
      const passportOwner = ownerOf(row.passport_account_id, row.passport_mode);
      const gateOwner = ownerOf(row.gate_account_id, row.gate_mode) ?? passportOwner;
      return gateOwner === null
        ? []
        : [[row.attestation_id, { record: attestationOf(row), passportOwner, gateOwner }]];
    }),
  );
}

const ownerOf = (accountId: AccountId | null, mode: Mode | null) =>
  accountId === null || mode === null ? null : { accountId, mode };
