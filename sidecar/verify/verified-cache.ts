import { LRUCache } from 'lru-cache';
import type { VerifiedPassport } from '../../shared/decision/facts.ts';
import { assert } from '../../shared/errors/assert.ts';
import { limits } from '../../shared/model/limits.ts';

/** An Ed25519 signature as base64url: the end of every token, and different for every token that verified. */
const signatureChars = 86;

interface Remembered {
  readonly token: string;
  readonly passport: VerifiedPassport;
}

/**
 * Tokens whose signature verified here before. It holds what a token says, never what was decided about it:
 * expiry, revocation, suspension and everything at the gate are looked at again for each request, so that a remembered
 * passport can die at any moment and an expired one may simply stay until it is the least recently used.
 *
 * Tokens that failed are not remembered. Whoever floods a sidecar changes a byte each time, and would only push out
 * the entry of somebody else.
 */
export interface VerifiedCache {
  /** The passport of exactly this token, every character compared. Null: not known, so verify it. */
  find(token: string): VerifiedPassport | null;
  /** Only for a token whose signature has just verified. */
  remember(token: string, passport: VerifiedPassport): void;
  readonly size: number;
}

/** `capacity`: passports, from 1; `charsMax`: of all their tokens together. The least recently used one makes room. */
export function verifiedCache(
  capacity: number,
  charsMax: number = limits.verifiedTokenCharsMax,
): VerifiedCache {
  // Keyed by the signature, because hashing 86 characters costs a seventh of hashing a token. The key is only a place to
  // look: a signature can be copied under another payload, so the whole token must be the same.
  const byKey = new LRUCache<string, Remembered>({
    max: capacity,
    maxSize: charsMax,
    // What a token was parsed into grows with the token.
    sizeCalculation: ({ token }) => token.length,
  });
  return {
    find: (token) => {
      const remembered = byKey.get(token.slice(-signatureChars));
      return remembered !== undefined && remembered.token === token ? remembered.passport : null;
    },
    remember: (token, passport) => {
      assert(token.length > signatureChars, 'a token that verified is longer than its signature');
      byKey.set(token.slice(-signatureChars), { token, passport });
    },
    get size() {
      return byKey.size;
    },
  };
}
