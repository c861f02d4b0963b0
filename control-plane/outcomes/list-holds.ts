import { ApiError } from '../../shared/errors/api-error.ts';
import type { HoldStatus } from '../../shared/model/hold.ts';
import type { AttestationId } from '../../shared/model/ids.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { Page, PagePlace } from '../../shared/wire/api/paging.ts';
import { findAttestation } from '../attestations/list-attestations.ts';
import type { Database } from '../base/database.ts';
import { readPage } from '../storage/read-page.ts';
import { permitColumns, permitOfRow, type StoredPermit } from './outcome-store.ts';

type PermitRow = Parameters<typeof permitOfRow>[0];

/** Holds at the owner's gates, newest first. */
export function listHolds(
  sql: Database,
  { accountId, mode }: Owner,
  {
    status,
    gateId,
    page,
  }: { readonly status: HoldStatus | null; readonly gateId: string | null; readonly page: PagePlace },
): Promise<Page<StoredPermit>> {
  // A literal, for the partial index of open ones.
  const ofStatus =
    status === null
      ? sql`hold_status IS NOT NULL`
      : status === 'open'
        ? sql`hold_status = 'open'`
        : sql`hold_status = ${status}`;
  const where = sql`account_id = ${accountId} AND mode = ${mode} AND ${ofStatus}
    ${gateId === null ? sql`` : sql`AND gate_id = ${gateId}`}`;
  return readPage(page, {
    count: () => sql<{ total: number }[]>`SELECT count(*) AS total FROM permit_outcomes WHERE ${where}`,
    rows: async (limit) => {
      const rows = await sql<PermitRow[]>`
        SELECT ${permitColumns(sql)} FROM permit_outcomes
        WHERE ${where} ${page.behind === null ? sql`` : sql`AND attestation_id < ${page.behind}`}
        ORDER BY attestation_id DESC LIMIT ${limit} OFFSET ${page.offset}`;
      return rows.map(permitOfRow);
    },
    idOf: ({ attestationId }) => attestationId,
  });
}

/** Of a record that the owner may read. One of which nothing was reported counts its own amount. */
export async function readPermit(
  sql: Database,
  owner: Owner,
  attestationId: AttestationId,
): Promise<StoredPermit> {
  const record = await findAttestation(sql, owner, attestationId);
  if (record === null) throw new ApiError('attestation_not_found');
  const [row] = await sql<PermitRow[]>`
    SELECT ${permitColumns(sql)} FROM permit_outcomes WHERE attestation_id = ${attestationId}`;
  if (row !== undefined) return permitOfRow(row);
  const isCounted = record.decision === 'PERMIT' && record.resolution === null && !record.test;
  return {
    attestationId,
    owner,
    gateId: record.gateId,
    passportId: record.passportId,
    countsMicroUsd: isCounted ? record.amountMicroUsd : null,
    hold: null,
    reported: null,
    refundedMicroUsd: 0 as StoredPermit['refundedMicroUsd'],
    overrunMicroUsd: 0 as StoredPermit['overrunMicroUsd'],
    overrunFrom: [],
    isVoid: false,
    recordId: null,
  };
}
