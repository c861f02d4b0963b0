import type { AccountId, UserId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Database, Transaction } from '../base/database.ts';
import type { ProvenIdentity } from './identity-provider.ts';
import { oidcLimits } from './limits.ts';

/** A candidate for a login: an active user of the requested account. */
export interface OidcCandidate {
  readonly userId: UserId;
  readonly accountId: AccountId;
  readonly accountName: string;
}

type Identity = Pick<ProvenIdentity, 'issuer' | 'subject'>;

/** The users linked to this identity, at most one per account. */
export const findLinkedUsers = (
  sql: Database,
  { issuer, subject }: Identity,
  accountId: string | null,
): Promise<readonly OidcCandidate[]> =>
  sql<OidcCandidate[]>`
    SELECT user_id AS "userId", users.account_id AS "accountId", a.name AS "accountName"
    FROM oidc_identities JOIN users USING (user_id) JOIN accounts a ON a.account_id = users.account_id COLLATE "default"
    WHERE subject = ${subject} AND issuer = ${issuer} AND NOT is_disabled AND accepted_at_ms IS NOT NULL
      ${accountId === null ? sql`` : sql`AND users.account_id = ${accountId}`}
    ORDER BY user_id LIMIT ${oidcLimits.accountsNamedMax}`;

/** A user with the address of an identity. */
export interface LinkCandidate extends OidcCandidate {
  /** Linked to another identity of this provider already. */
  readonly isTaken: boolean;
  /** Has an open invitation, and has not accepted it. */
  readonly isInvited: boolean;
}

/** Users with this address, those who have accepted first. */
export const findUsersToLink = (
  sql: Database,
  { issuer, email, nowMs }: { readonly issuer: string; readonly email: string; readonly nowMs: UnixMillis },
  accountId: string | null,
): Promise<readonly LinkCandidate[]> =>
  sql<LinkCandidate[]>`
    SELECT user_id AS "userId", users.account_id AS "accountId", a.name AS "accountName",
      coalesce(issuer = ${issuer}, false) AS "isTaken", accepted_at_ms IS NULL AS "isInvited"
    FROM users LEFT JOIN oidc_identities USING (user_id) JOIN accounts a ON a.account_id = users.account_id COLLATE "default"
    WHERE email = ${email} AND NOT is_disabled AND (accepted_at_ms IS NOT NULL OR EXISTS (
        SELECT FROM invitations i WHERE i.user_id = users.user_id AND i.expires_at_ms > ${nowMs}))
      ${accountId === null ? sql`` : sql`AND users.account_id = ${accountId}`}
    ORDER BY accepted_at_ms IS NULL, user_id LIMIT ${oidcLimits.accountsNamedMax}`;

/** The link between a user, whose row is locked, and the identity. */
export type Link = 'new' | 'kept' | 'of another';

/** Links a user whose row is locked. Replaces an identity of an earlier provider, which is useless now. */
export async function linkIdentity(
  tx: Transaction,
  { issuer, subject }: Identity,
  { userId, nowMs }: { readonly userId: UserId; readonly nowMs: UnixMillis },
): Promise<Link> {
  const [linked] = await tx<
    Identity[]
  >`SELECT issuer, subject FROM oidc_identities WHERE user_id = ${userId}`;
  if (linked?.issuer === issuer) return linked.subject === subject ? 'kept' : 'of another';
  await tx`
    INSERT INTO oidc_identities (user_id, issuer, subject, linked_at_ms)
    VALUES (${userId}, ${issuer}, ${subject}, ${nowMs})
    ON CONFLICT (user_id) DO UPDATE SET
      issuer = excluded.issuer, subject = excluded.subject, linked_at_ms = excluded.linked_at_ms`;
  return 'new';
}
