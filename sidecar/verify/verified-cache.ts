import { LRUCache } from 'lru-cache';
import type { VerifiedPassport } from '../../shared/decision/facts.ts';
import { assert } from '../../shared/errors/assert.ts';
import { verifyLimits } from './limits.ts';

/**
 * The end of the signature, which ends every token: 64 bits or more that no client chooses. As a key it takes
 * a third of the time of the whole signature, because a slice of fewer than 13 characters is copied and not
 * looked at through the token (bench row `micro`: verifiedCache).
 */
const keyChars = 12;

/**
 * Where to look for a token. A signature can be copied under another payload: whoever finds something
 * under it compares the whole token.
 */
export const tokenKey = (token: string): string => token.slice(-keyChars);

interface Remembered {
  readonly token: string;
  readonly passport: VerifiedPassport;
}

/**
 * Tokens whose signature verified here before. It holds what a token says, never what was decided about it:
 * expiry, revocation, suspension and everything at the gate are looked at again for each request, so that a
 * remembered passport can die at any moment and an expired one may simply stay until it is the least recently
 * used.
 *
 * Tokens that failed are not remembered. Whoever floods a sidecar changes a byte each time, and would only
 * push out the entry of somebody else.
 */
export interface VerifiedCache {
  /** The passport of exactly this token, every character compared. Null: not known, so verify it. */
  find(token: string): VerifiedPassport | null;
  /** Only for a token whose signature has just verified. */
  remember(token: string, passport: VerifiedPassport): void;
  readonly size: number;
}

/**
 * `capacity`: passports, from 1; `charsMax`: of all their tokens together. The least recently used one makes
 * room.
 */
export function verifiedCache(
  capacity: number,
  charsMax: number = verifyLimits.verifiedTokenCharsMax,
): VerifiedCache {
  // The key is only a place to look: a signature can be copied under another payload, so the whole token must
  // be the same. Of two tokens with one key the later takes the place, and the earlier is verified again.
  const byKey = new LRUCache<string, Remembered>({
    max: capacity,
    maxSize: charsMax,
    // What a token was parsed into grows with the token.
    sizeCalculation: ({ token }) => token.length,
  });
  // The one that was found last, and nothing remembered since: it is the most recently used one already.
  // Agents come with one token again and again, and one of another passport differs soon.
  let last: Remembered | null = null;
  return {
    find: (token) => {
      if (last !== null && last.token === token) return last.passport;
      const remembered = byKey.get(tokenKey(token));
      if (remembered === undefined || remembered.token !== token) return null;
      last = remembered;
      return remembered.passport;
    },
    remember: (token, passport) => {
      assert(token.length > keyChars, 'a token that verified is longer than its signature');
      last = null;
      byKey.set(tokenKey(token), { token, passport });
    },
    get size() {
      return byKey.size;
    },
  };
}
