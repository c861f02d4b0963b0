import type { Branded } from './brand.ts';

/**
 * The first 16 bytes of SHA-256 of an id's text, as 22 characters of base64url. The global feed carries it
 * instead of the id, so that only a holder of the token can look up its passport (contract §11). Ids have 80
 * random bits, so a digest cannot be reversed by guessing.
 */
export type IdDigest = Branded<string, 'IdDigest'>;

export const idDigestBytes = 16;
export const idDigestChars = 22;

/**
 * One digest or several, one after another, as words of 32 bits, `idDigestWords` for each: the form for
 * look-ups.
 */
export type DigestWords = Branded<Int32Array, 'DigestWords'>;

export const idDigestWords = 4;

/**
 * Where the digests of a passport start in its `DigestWords`: its own, its issuer's, its account's, its
 * owner's if it has one, and of a token of another issuer that of its user as a subject, if it names one.
 */
export const digestAt = {
  passport: 0,
  issuer: idDigestWords,
  account: 2 * idDigestWords,
  owner: 3 * idDigestWords,
  user: 4 * idDigestWords,
} as const;
