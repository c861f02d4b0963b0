import { signPassportToken } from '../../shared/crypto/passport-token.ts';
import { ApiError } from '../../shared/errors/api-error.ts';
import { assert } from '../../shared/errors/assert.ts';
import { limits } from '../../shared/model/limits.ts';
import type { Passport } from '../../shared/model/passport.ts';
import { toSeconds } from '../../shared/model/time.ts';
import { parsePassportClaims, renderPassportClaims } from '../../shared/wire/api/passport-claims.ts';
import type { SigningKey } from '../signing/signing-keys.ts';

/**
 * The token of a passport (contract §3), valid from issuance. Throws `invalid_request` beyond
 * `limits.tokenBytesMax`, because every gate would call it malformed.
 */
export function signPassport(passport: Passport, key: SigningKey): string {
  const issuedAtS = toSeconds(passport.issuedAtMs);
  const payload = renderPassportClaims({
    passportId: passport.passportId,
    issuerId: passport.issuerId,
    issuerDomain: passport.issuerDomain,
    accountId: passport.accountId,
    mode: passport.mode,
    agentId: passport.agentId,
    agentName: passport.agentName,
    permissions: passport.permissions,
    trustTier: passport.trustTier,
    constraints: passport.constraints,
    hasWallet: passport.walletId !== null,
    issuedAtS,
    notBeforeS: issuedAtS,
    expiresAtS: passport.expiresAtMs === null ? null : toSeconds(passport.expiresAtMs),
    publicKey: passport.publicKey,
    owner: passport.owner,
    user: passport.user,
  });
  assert(parsePassportClaims(payload) !== null, 'what is issued here can be read everywhere');
  const token = signPassportToken(payload, key);
  if (token.length > limits.tokenBytesMax) {
    throw new ApiError('invalid_request', {
      message:
        `The token would have ${token.length} bytes, and ${limits.tokenBytesMax} are allowed. ` +
        'Give it fewer or shorter permissions or constraints.',
    });
  }
  return token;
}
