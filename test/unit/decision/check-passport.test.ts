import { describe, expect, it } from 'vitest';
import { checkPassport } from '../../../shared/decision/check-passport.ts';
import type { UnixMillis, UnixSeconds } from '../../../shared/model/time.ts';
import { aPassport, aStanding, nowMs } from './samples.ts';

const here = { mode: 'live' } as const;

/** What the cases cannot show: there, a compromised key already stops the token before it is a passport. */
describe('checkPassport', () => {
  it('rejects a cached passport whose key was compromised, its times included', () => {
    const standing = aStanding({ isKeyCompromised: true, status: 'revoked' });
    const expired = { ...aPassport(), expiresAtS: 1 as UnixSeconds };
    expect(checkPassport(aPassport(), standing, here, nowMs)).toBe('passport_unknown_key');
    expect(checkPassport(expired, standing, here, nowMs)).toBe('passport_unknown_key');
  });

  it('takes a passport without expiry for ever', () => {
    expect(checkPassport(aPassport(), aStanding(), here, (nowMs * 5) as UnixMillis)).toBeNull();
  });
});
