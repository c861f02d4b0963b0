import { federatedPassportId } from '../../shared/crypto/federated-id.ts';
import type { IssuerId, PassportId } from '../../shared/model/ids.ts';
import type { IssuerStatus } from '../../shared/model/issuer.ts';
import type { PassportStatus, Suspension } from '../../shared/model/passport.ts';
import type { Database } from '../base/database.ts';

/** A subject of another issuer, by its passport, which need not be known yet. */
export interface ForeignSubject {
  readonly issuerId: IssuerId;
  readonly passportId: PassportId;
  /** As its token named it; null: none. */
  readonly owner: string | null;
  /** For whom it acts, as its token named him; null or absent: nobody. */
  readonly user?: string | null;
}

export interface SubjectStanding {
  readonly issuerStatus: IssuerStatus;
  /** Of its passport, if there is one, and of its owner. */
  readonly status: PassportStatus;
  readonly suspendedBy: readonly Suspension[];
}

/**
 * What stands against a subject, by its passport and its token's owner, and against its token's user, who is
 * stopped as a subject of the issuer. Null: no such issuer.
 */
export async function standingOfSubject(
  sql: Database,
  subject: ForeignSubject,
): Promise<SubjectStanding | null> {
  const { issuerId, user = null } = subject;
  const own = await standingOf(sql, subject);
  if (user === null || own === null || own.status === 'revoked') return own;
  const ofUser = await standingOf(sql, {
    issuerId,
    passportId: federatedPassportId(issuerId, user),
    owner: null,
  });
  return ofUser === null || ofUser.status === 'active' ? own : ofUser;
}

async function standingOf(
  sql: Database,
  { issuerId, passportId, owner }: ForeignSubject,
): Promise<SubjectStanding | null> {
  const [row] = await sql<SubjectStanding[]>`
    SELECT i.status AS "issuerStatus", coalesce(nullif(p.status, 'active'), CASE WHEN causes IS NULL THEN 'active' ELSE 'suspended' END) AS status,
      coalesce(causes, '[]') AS "suspendedBy"
    FROM issuers i LEFT JOIN passports p ON p.passport_id = ${passportId} AND p.issuer_id = i.issuer_id CROSS JOIN LATERAL (
      SELECT jsonb_agg(DISTINCT jsonb_build_object('cause', cause, 'sinceMs', since_ms, 'event', event, 'owner', nullif(owner, ''))) AS causes
      FROM suspensions s WHERE s.passport_id = p.passport_id OR (s.passport_id = ''
        AND s.account_id = i.account_id AND s.mode = i.mode AND s.owner = ${owner})
    ) AS standing
    WHERE i.issuer_id = ${issuerId}`;
  return row ?? null;
}

/** Whether the subject is not switched off: neither its issuer, nor its passport, nor its owner. */
export async function isSubjectActive(sql: Database, subject: ForeignSubject): Promise<boolean> {
  const standing = await standingOfSubject(sql, subject);
  return standing?.issuerStatus === 'active' && standing.status === 'active';
}
