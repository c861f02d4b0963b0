/**
 * Room `shared/verification`: from a token to a verified passport, in two steps with the signature check
 * between them.
 */

import { sha256Hex } from '../crypto/content-hash.ts';
import type { Keyset, KeysetEntry } from '../crypto/keyset.ts';
import { type OpenToken, openPassportToken } from '../crypto/passport-token.ts';
import { compilePassport } from '../decision/compile-passport.ts';
import type { TokenRefusal, VerifiedPassport } from '../decision/facts.ts';
import { parsePassportClaims } from '../wire/passport-claims.ts';
import { digestsOf, ownerOf, permissionSetOf } from './common-parts.ts';

export interface RefusedToken {
  readonly kind: 'refused';
  readonly reason: TokenRefusal;
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
  const owner = ownerOf(claims);
  const { issuerId, accountId } = owner;
  return {
    kind: 'verified',
    passport: compilePassport(
      { ...claims, issuerId, accountId },
      {
        keyId: opened.open.kid,
        tokenHash: sha256Hex(opened.open.token),
        digests: digestsOf(claims.passportId, owner),
        permissions: permissionSetOf(claims.permissions),
      },
    ),
  };
}

const refused = (reason: TokenRefusal): RefusedToken => ({ kind: 'refused', reason });
