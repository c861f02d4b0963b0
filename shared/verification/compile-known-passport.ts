import { type CompiledClaims, compilePassport } from '../decision/compile-passport.ts';
import type { VerifiedPassport } from '../decision/facts.ts';
import { digestsOf, issuerOf, permissionSetOf, userKeyIn } from './common-parts.ts';

/** What a store of passports knows of one: what its token claims, and the token's key and hash. */
export type KnownClaims = CompiledClaims & Pick<VerifiedPassport, 'keyId' | 'tokenHash'>;

/** The passport as `admitToken` makes it of a verified token. */
export const compileKnownPassport = (claims: KnownClaims): VerifiedPassport =>
  compilePassport(claims, {
    keyId: claims.keyId,
    tokenHash: claims.tokenHash,
    digests: digestsOf(claims, issuerOf(claims)),
    permissions: permissionSetOf(claims.permissions),
    userKey: userKeyIn(claims),
  });
