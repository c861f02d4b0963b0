import type { IssuerId, PassportId } from '../../shared/model/ids.ts';
import type { IssuerStatus } from '../../shared/model/issuer.ts';
import type { PassportStatus } from '../../shared/model/passport.ts';
import type { Database } from '../base/database.ts';

/** A subject of another issuer, by its passport, which need not be known yet. */
export interface ForeignSubject {
  readonly issuerId: IssuerId;
  readonly passportId: PassportId;
  /** As its token named it; null: none. */
  readonly owner: string | null;
}

/**
 * Whether the subject is not switched off: its issuer is active, its passport, if there is one, is neither
 * suspended nor ended, and none of its owners is suspended.
 */
export async function isSubjectActive(
  sql: Database,
  { issuerId, passportId, owner }: ForeignSubject,
): Promise<boolean> {
  const [row] = await sql<
    { issuerStatus: IssuerStatus; status: PassportStatus | null; isOwnerSuspended: boolean }[]
  >`
    SELECT i.status AS "issuerStatus", p.status, EXISTS (
      SELECT FROM owner_standings o WHERE o.account_id = i.account_id AND o.mode = i.mode
        AND o.owner IN (p.owner, ${owner}::text) AND o.status = 'suspended') AS "isOwnerSuspended"
    FROM issuers i LEFT JOIN passports p ON p.passport_id = ${passportId} AND p.issuer_id = i.issuer_id
    WHERE i.issuer_id = ${issuerId}`;
  if (row === undefined) return false;
  const { issuerStatus, status, isOwnerSuspended } = row;
  return issuerStatus === 'active' && (status ?? 'active') === 'active' && !isOwnerSuspended;
}
