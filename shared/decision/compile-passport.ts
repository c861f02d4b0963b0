import type { PassportClaims } from '../model/passport-claims.ts';
import { compileApprovals } from './compile-approvals.ts';
import { compileConditions } from './compile-conditions.ts';
import { compileDomains } from './compile-domains.ts';
import { compileRateWindows, compileSpendWindows, spendNeedsAmount } from './compile-windows.ts';
import type { VerifiedPassport } from './facts.ts';

/** What of the claims no decision reads. */
type Undecided = 'issuerDomain' | 'agentName' | 'issuedAtS';
export type CompiledClaims = Omit<PassportClaims, Undecided> & Partial<Pick<PassportClaims, Undecided>>;

const noClaims: VerifiedPassport['foreignClaims'] = Object.freeze({});

/**
 * Precomputes everything that depends only on the token, once per token. Only for claims with a verified
 * signature, or of a passport's row; see VerifiedPassport. `permissions`: an existing set of the claims'
 * permissions, if any; `conditions`: those of its issuer, if they are compiled already.
 */
export function compilePassport(
  claims: CompiledClaims,
  {
    keyId,
    tokenHash,
    digests,
    permissions = new Set(claims.permissions),
    conditions = compileConditions(claims.constraints.conditions),
    foreignClaims = noClaims,
    source = null,
    actors = [],
    userKey = null,
    among = '',
  }: Pick<VerifiedPassport, 'keyId' | 'tokenHash' | 'digests'> &
    Partial<
      Pick<
        VerifiedPassport,
        'permissions' | 'conditions' | 'foreignClaims' | 'source' | 'actors' | 'userKey' | 'among'
      >
    >,
): VerifiedPassport {
  const { allowedDomains, spendLimits, rateLimits } = claims.constraints;
  return {
    passportId: claims.passportId,
    issuerId: claims.issuerId,
    accountId: claims.accountId,
    agentId: claims.agentId,
    mode: claims.mode,
    trustTier: claims.trustTier,
    permissions,
    notBeforeS: claims.notBeforeS,
    expiresAtS: claims.expiresAtS,
    allowedDomains: allowedDomains === null ? null : compileDomains(allowedDomains),
    perTransactionMicroUsd: spendLimits?.perTransactionMicroUsd ?? null,
    spendWindows: compileSpendWindows(spendLimits, 'passport'),
    spendNeedsAmount: spendNeedsAmount(spendLimits),
    rateWindows: compileRateWindows(rateLimits, 'passport'),
    approvals: compileApprovals(claims.constraints),
    proof: claims.constraints.proofOfPossession,
    conditions,
    foreignClaims,
    agentKey: claims.publicKey,
    hasWallet: claims.hasWallet,
    keyId,
    tokenHash,
    digests,
    owner: claims.owner,
    user: claims.user,
    userKey,
    actors,
    source,
    among,
  };
}
