import { federatedPassportId } from '../../shared/crypto/federated-id.ts';
import type { PassportStanding, VerifiedPassport } from '../../shared/decision/facts.ts';
import type { AccountStatus } from '../../shared/model/account.ts';
import { federatedTokenHash, isFederated } from '../../shared/model/federation.ts';
import type { AccountId, IssuerId, PassportId } from '../../shared/model/ids.ts';
import type { IssuerStatus } from '../../shared/model/issuer.ts';
import type { Mode } from '../../shared/model/mode.ts';
import type { PassportStatus } from '../../shared/model/passport.ts';
import type { Transaction } from '../base/database.ts';
import { type ShownPassport, shownTo } from '../issuers/shown-passport-store.ts';
import { distinct } from '../storage/distinct.ts';

interface PassportRow {
  readonly passportId: PassportId;
  readonly tokenHash: string;
  readonly issuerId: IssuerId;
  readonly agentId: string;
  readonly accountId: AccountId;
  readonly mode: Mode;
  readonly status: PassportStatus;
  readonly issuerStatus: IssuerStatus;
  readonly accountStatus: AccountStatus;
  readonly isWalletFrozen: boolean;
  readonly shownTo: ShownPassport['shownTo'];
}

/** Adds the identity of the passport, for callers that have not seen its token. */
export interface KnownPassport {
  readonly passport: Pick<VerifiedPassport, 'passportId' | 'agentId' | 'accountId' | 'mode'>;
  readonly standing: PassportStanding;
  /** Who has seen its token. */
  readonly shown: ShownPassport;
  /** A wallet that it draws on is. */
  readonly isWalletFrozen: boolean;
}

interface SeenToken {
  readonly passportId: PassportId;
  readonly tokenHash: string;
  /** For whom its agent acts. Of a token of another issuer he is stopped as a subject, too. */
  readonly user?: string | null | undefined;
}

/**
 * Reads the current state of verified passports by token hash, so the state has age 0. Reasons for a missing
 * row: the token was forged with a stolen key; a restored backup lost the row, and the passport cannot be
 * revoked any more; or its key was declared compromised, which the verifier of the token may not know yet.
 */
export async function findStandings(
  tx: Transaction,
  tokens: readonly SeenToken[],
): Promise<ReadonlyMap<string, KnownPassport>> {
  if (tokens.length === 0) return new Map();
  const rows = await tx<PassportRow[]>`
    SELECT p.passport_id AS "passportId", p.token_hash AS "tokenHash", p.issuer_id AS "issuerId", p.agent_id AS "agentId", p.account_id AS "accountId",
      p.mode, p.status, ${shownTo(tx, 'p')} AS "shownTo", i.status AS "issuerStatus", a.status AS "accountStatus",
      EXISTS (
        SELECT FROM passport_wallets m JOIN wallets leaf ON leaf.wallet_id = m.wallet_id
        JOIN wallets w ON w.wallet_id = ANY(leaf.path) AND w.status = 'frozen'
        WHERE m.passport_id = p.passport_id) AS "isWalletFrozen"
    FROM passports p JOIN issuers i USING (issuer_id) JOIN accounts a ON a.account_id = p.account_id
    WHERE p.passport_id = ANY(${distinct(tokens.map(({ passportId }) => passportId))}::text[])
      AND (p.token_hash = ${federatedTokenHash} OR NOT EXISTS (SELECT FROM signing_keys WHERE kid = p.signing_key_id AND compromised))`;
  const stored = new Map(rows.map((row) => [row.passportId, row]));
  const stopped = await stoppedUsers(tx, tokens, stored);
  return new Map(
    tokens.flatMap((token) => {
      const row = stored.get(token.passportId);
      const isOf = row !== undefined && (row.tokenHash === token.tokenHash || isFederated(row.tokenHash));
      return isOf ? [[token.tokenHash, knownPassport(withUser(row, stopped.get(token)))]] : [];
    }),
  );
}

/** What stands against the users of these tokens, as subjects of the tokens' issuers. */
async function stoppedUsers(
  tx: Transaction,
  tokens: readonly SeenToken[],
  stored: ReadonlyMap<PassportId, PassportRow>,
): Promise<ReadonlyMap<SeenToken, PassportStatus>> {
  const subjects = tokens.flatMap((token) => {
    const { user = null } = token;
    const row = stored.get(token.passportId);
    if (user === null || row === undefined || !isFederated(row.tokenHash)) return [];
    return [{ token, passportId: federatedPassportId(row.issuerId, user) }];
  });
  if (subjects.length === 0) return new Map();
  const ids = distinct(subjects.map(({ passportId }) => passportId));
  const rows = await tx<Pick<PassportRow, 'passportId' | 'status'>[]>`
    SELECT passport_id AS "passportId", status FROM passports
    WHERE passport_id = ANY(${ids}::text[]) AND status <> 'active'`;
  const statuses = new Map(rows.map(({ passportId, status }) => [passportId, status]));
  return new Map(
    subjects.flatMap(({ token, passportId }) => {
      const status = statuses.get(passportId);
      return status === undefined ? [] : [[token, status] as const];
    }),
  );
}

/** Of two that stand, a revocation is final. */
const withUser = (row: PassportRow, ofUser: PassportStatus | undefined): PassportRow =>
  ofUser === undefined || row.status === 'revoked' ? row : { ...row, status: ofUser };

const knownPassport = ({
  passportId,
  agentId,
  accountId,
  mode,
  status,
  issuerStatus,
  accountStatus,
  tokenHash,
  isWalletFrozen,
  shownTo: others,
}: PassportRow): KnownPassport => ({
  shown: { tokenHash, accountId, shownTo: others },
  isWalletFrozen,
  passport: { passportId, agentId, accountId, mode },
  standing: {
    // Marked expired to free its agent_id. Final, even if this clock is behind and the claims still look
    // valid.
    status: status === 'expired' ? 'revoked' : status,
    isIssuerSuspended: issuerStatus === 'suspended',
    isAccountSuspended: accountStatus === 'suspended',
    isKeyCompromised: false,
    // The database says which wallets it is in.
    isInWallet: false,
    stateAgeMs: 0,
  },
});
