/**
 * Room `shared/verification`: from a token to a verified passport, in two steps with the signature check
 * between them.
 */

import { sha256Hex } from '../crypto/content-hash.ts';
import type { OpenForeignToken } from '../crypto/foreign-token.ts';
import type { Keyset, KeysetEntry } from '../crypto/keyset.ts';
import { type OpenToken, openPassportToken } from '../crypto/passport-token.ts';
import { compilePassport } from '../decision/compile-passport.ts';
import type { TokenRefusal, VerifiedPassport } from '../decision/facts.ts';
import { parsePassportClaims } from '../wire/api/passport-claims.ts';
import { digestsOf, issuerOf, permissionSetOf, userKeyIn } from './common-parts.ts';
import type { ForeignIssuer, ForeignVerificationKey } from './foreign-issuers.ts';

export interface RefusedToken {
  readonly kind: 'refused';
  readonly reason: TokenRefusal;
  /** Absent: the reason is all that is known. */
  readonly fault?: TokenFault;
}

/** What is wrong with a token, for whoever registered its issuer. Quotes nothing of it. */
export interface TokenFault {
  /** The name of a claim, a pointer to it, or what else of the token was looked at. */
  readonly claim: string;
  readonly detail: string;
}

/** The verdict on a token after its signature check. */
export type TokenVerdict = RefusedToken | { readonly kind: 'verified'; readonly passport: VerifiedPassport };

/**
 * A token ready for its signature check: `key.verify(open.signingInput, open.signature)`, here or in a pool
 * of workers.
 */
export interface OpenedToken {
  readonly kind: 'opened';
  readonly open: OpenToken;
  readonly key: KeysetEntry;
}

/** The same of a token of another issuer (contract §4). */
export interface OpenedForeignToken {
  readonly kind: 'foreign';
  readonly open: OpenForeignToken;
  readonly key: ForeignVerificationKey;
  readonly issuer: ForeignIssuer;
  /** See VerifiedPassport. */
  readonly among: string;
}

/**
 * The steps before the signature, in the order of contract §5: shape, algorithm, existence of the key. Never
 * throws. A compromised key counts as missing: its tokens prove nothing, so a decision about them must not be
 * in the chain of the passport they name (contract §9 and §11).
 */
export function openToken(token: string, keys: Keyset): RefusedToken | OpenedToken {
  const open = openPassportToken(token);
  if (open === null) return refused('passport_malformed');
  const key = keys.find('passport', open.kid);
  if (key === null || key.key.compromised) return refused('passport_unknown_key');
  return { kind: 'opened', open, key };
}

/**
 * The steps after it: the signature's result, then the types of the claims. `decide` checks times, revocation
 * and status each time.
 */
export function admitToken(opened: OpenedToken, signatureIsValid: boolean): TokenVerdict {
  if (!signatureIsValid) return refused('passport_signature_invalid');
  const claims = parsePassportClaims(opened.open.payload);
  if (claims === null) return refused('passport_malformed');
  const issuer = issuerOf(claims);
  const { issuerId, accountId } = issuer;
  return {
    kind: 'verified',
    passport: compilePassport(
      { ...claims, issuerId, accountId },
      {
        keyId: opened.open.kid,
        tokenHash: sha256Hex(opened.open.token),
        digests: digestsOf(claims, issuer),
        permissions: permissionSetOf(claims.permissions),
        userKey: userKeyIn(claims),
      },
    ),
  };
}

export const refused = (reason: TokenRefusal, fault?: TokenFault): RefusedToken =>
  fault === undefined ? { kind: 'refused', reason } : { kind: 'refused', reason, fault };
