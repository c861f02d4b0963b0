import { sha256Hex } from '../../shared/crypto/content-hash.ts';
import type { AccountId, UserId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { InvitationAnswer } from '../../shared/wire/api/user.ts';
import type { Database, Transaction } from '../base/database.ts';
import type { BaseDeps } from '../base/deps.ts';
import { peopleLimits } from './limits.ts';

const tokenBytes = 32;

/** A new invitation, while its link is known. */
export interface NewInvitation {
  /**
   * A secret: its opener becomes the user. The token is in the fragment, which browsers do not send to
   * servers.
   */
  readonly url: string;
  readonly expiresAtMs: UnixMillis;
}

export interface Invitation {
  readonly accountId: AccountId;
  /** Null: of a first owner. */
  readonly userId: UserId | null;
}

/** Makes a link; the one that the user had before ends. */
export async function makeInvitation(
  tx: Transaction,
  { random, clock, baseUrl }: Pick<BaseDeps, 'random' | 'clock' | 'baseUrl'>,
  { accountId, userId }: Invitation,
): Promise<NewInvitation> {
  const token = Buffer.from(random.bytes(tokenBytes)).toString('base64url');
  const nowMs = clock.now();
  const expiresAtMs = (nowMs + peopleLimits.invitationMs) as UnixMillis;
  await tx`DELETE FROM invitations WHERE user_id = ${userId}`;
  await tx`
    INSERT INTO invitations (token_hash, account_id, user_id, created_at_ms, expires_at_ms)
    VALUES (${hashToken(token)}, ${accountId}, ${userId}, ${nowMs}, ${expiresAtMs})`;
  // The page asks a first owner for an address.
  const query = userId === null ? '?first=1' : '';
  return { url: `${new URL(baseUrl).origin}/console/invitation${query}#token=${token}`, expiresAtMs };
}

/** Who invites, where to and as what. Null: nobody is invited any more. */
export async function describeInvitation(
  sql: Database,
  { accountId, userId }: Invitation,
): Promise<Omit<InvitationAnswer, 'expires_at'> | null> {
  const [row] = await sql<Omit<InvitationAnswer, 'expires_at'>[]>`
    SELECT a.name AS account_name, coalesce(u.role, 'owner') AS role, u.email, inviter.name AS invited_by_name
    FROM accounts a LEFT JOIN users u ON u.user_id = ${userId}
    LEFT JOIN users inviter ON inviter.user_id = u.invited_by
    WHERE a.account_id = ${accountId} AND u.user_id IS NOT DISTINCT FROM ${userId} AND u.is_disabled IS NOT TRUE`;
  return row ?? null;
}

/** The invitation may be used up meanwhile; `takeInvitation` decides. */
export async function findInvitation(
  sql: Database,
  token: string,
  nowMs: UnixMillis,
): Promise<(Invitation & Pick<NewInvitation, 'expiresAtMs'>) | null> {
  const [row] = await sql<(Invitation & Pick<NewInvitation, 'expiresAtMs'>)[]>`
    SELECT account_id AS "accountId", user_id AS "userId", expires_at_ms AS "expiresAtMs" FROM invitations
    WHERE token_hash = ${hashToken(token)} AND expires_at_ms > ${nowMs}`;
  return row ?? null;
}

/** Uses the link up. False: already used. */
export async function takeInvitation(tx: Transaction, token: string, nowMs: UnixMillis): Promise<boolean> {
  const taken = await tx`
    DELETE FROM invitations WHERE token_hash = ${hashToken(token)} AND expires_at_ms > ${nowMs}`;
  return taken.count > 0;
}

/** Uses up the invitation of a user who came without its link. False: none is open. */
export async function endInvitation(tx: Transaction, userId: UserId, nowMs: UnixMillis): Promise<boolean> {
  const ended = await tx`DELETE FROM invitations WHERE user_id = ${userId} AND expires_at_ms > ${nowMs}`;
  return ended.count > 0;
}

/** The links of a first owner: all, or all but the newest `peopleLimits.firstOwnerLinksMax - 1`. */
export async function endFirstOwnerLinks(
  tx: Transaction,
  accountId: AccountId,
  { kept }: { readonly kept: number },
): Promise<void> {
  await tx`
    DELETE FROM invitations WHERE token_hash IN (
      SELECT token_hash FROM invitations WHERE account_id = ${accountId} AND user_id IS NULL
      ORDER BY created_at_ms DESC OFFSET ${kept})`;
}

const hashToken = (token: string): string => sha256Hex(token);
