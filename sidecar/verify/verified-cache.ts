import { LRUCache } from 'lru-cache';
import type { VerifiedPassport } from '../../shared/decision/facts.ts';
import { assert } from '../../shared/errors/assert.ts';
import { verifyLimits } from './limits.ts';

/**
 * The last characters of the signature, and so of the token: at least 64 bits that no client chooses. As a
 * key they take a third of the time of the whole signature, because V8 copies slices of fewer than 13
 * characters instead of referring to the token (bench row `micro`: verifiedCache).
 */
const keyChars = 12;

/**
 * The look-up key of a token. A signature can be copied under another payload, so a hit must compare the
 * whole token.
 */
export const tokenKey = (token: string): string => token.slice(-keyChars);

interface Remembered {
  readonly token: string;
  /** See VerifiedPassport. */
  readonly among: string;
  readonly passport: VerifiedPassport;
}

/**
 * Tokens with a verified signature. Caches the claims, never a decision: expiry, revocation, suspension and
 * all checks of the gate run for each request. So a remembered passport can be revoked at any moment, and an
 * expired one may stay until it is evicted.
 *
 * Failed tokens are not remembered: a flood would change a byte each time and only evict valid entries.
 */
export interface VerifiedCache {
  /**
   * The passport of exactly this token, every character compared. Null: unknown; verify it. `among`: among
   * these issuers of others (KnownIssuers); default: those of the own account.
   */
  find(token: string, among?: string): VerifiedPassport | null;
  /** Only for a token whose signature was just verified. */
  remember(token: string, passport: VerifiedPassport): void;
  readonly size: number;
}

/**
 * `capacity`: passports, from 1. `charsMax`: characters of all their tokens. Evicts the least recently used.
 */
export function verifiedCache(
  capacity: number,
  charsMax: number = verifyLimits.verifiedTokenCharsMax,
): VerifiedCache {
  // The key is a hint only: a signature can be copied under another payload, so the whole token must match.
  // Of two tokens with one key the later replaces the earlier, which is verified again.
  const byKey = new LRUCache<string, Remembered>({
    max: capacity,
    maxSize: charsMax,
    // The parsed claims grow with the token.
    sizeCalculation: ({ token }) => token.length,
  });
  // The last hit, if nothing was remembered since: it is the most recently used already. Agents repeat one
  // token, and tokens of different passports differ early.
  let last: Remembered | null = null;
  return {
    find: (token, among = '') => {
      if (last !== null && last.token === token && last.among === among) return last.passport;
      const remembered = byKey.get(among === '' ? tokenKey(token) : `${tokenKey(token)}${among}`);
      if (remembered === undefined || remembered.token !== token) return null;
      last = remembered;
      return remembered.passport;
    },
    remember: (token, passport) => {
      assert(token.length > keyChars, 'a token that verified is longer than its signature');
      last = null;
      const { among } = passport;
      byKey.set(`${tokenKey(token)}${among}`, { token, among, passport });
    },
    get size() {
      return byKey.size;
    },
  };
}
