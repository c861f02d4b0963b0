import type { PassportStanding, VerifiedPassport } from '../../shared/decision/facts.ts';
import type { AccountStatus } from '../../shared/model/account.ts';
import type { AccountId } from '../../shared/model/ids.ts';
import type { IssuerStatus } from '../../shared/model/issuer.ts';
import type { Mode } from '../../shared/model/mode.ts';
import type { PassportStatus } from '../../shared/model/passport.ts';
import type { Transaction } from '../deps.ts';

interface StandingRow {
  readonly agentId: string;
  readonly accountId: AccountId;
  readonly mode: Mode;
  readonly status: PassportStatus;
  readonly issuerStatus: IssuerStatus;
  readonly accountStatus: AccountStatus;
}

/** With whose passport it is, for those who have not seen its token themselves. */
export interface KnownPassport {
  readonly passport: Pick<VerifiedPassport, 'passportId' | 'agentId' | 'accountId' | 'mode'>;
  readonly standing: PassportStanding;
}

/**
 * What the database knows of a verified passport at this moment, so that its age is 0. Null where this token proves nothing: it was never
 * issued here (somebody else signed it with our key, or its issue was lost with a restored backup, so that nobody can revoke it), or the
 * key that signed it was declared compromised, of which whoever verified the token may not have heard.
 */
export async function findStanding(
  tx: Transaction,
  { passportId, tokenHash }: Pick<VerifiedPassport, 'passportId' | 'tokenHash'>,
): Promise<KnownPassport | null> {
  const [row] = await tx<StandingRow[]>`
    SELECT p.agent_id AS "agentId", p.account_id AS "accountId", p.mode, p.status, i.status AS "issuerStatus", a.status AS "accountStatus"
    FROM passports p JOIN issuers i USING (issuer_id) JOIN accounts a ON a.account_id = p.account_id
    WHERE p.passport_id = ${passportId} AND p.token_hash = ${tokenHash}
      AND NOT EXISTS (SELECT FROM signing_keys WHERE kid = p.signing_key_id AND compromised)`;
  if (row === undefined) return null;
  const { agentId, accountId, mode, status, issuerStatus, accountStatus } = row;
  return {
    passport: { passportId, agentId, accountId, mode },
    standing: {
      // Marked expired, to free its agent_id: for good, also where this clock is behind and its claims still say otherwise.
      status: status === 'expired' ? 'revoked' : status,
      isIssuerSuspended: issuerStatus === 'suspended',
      isAccountSuspended: accountStatus === 'suspended',
      isKeyCompromised: false,
      stateAgeMs: 0,
    },
  };
}
