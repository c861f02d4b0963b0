import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { VerifiedPassport } from '../../../shared/decision/facts.ts';
import { must } from '../../../shared/errors/assert.ts';
import { admitToken, openToken } from '../../../shared/verification/verify-token.ts';
import { verifiedCache } from '../../../sidecar/verify/verified-cache.ts';
import { authority } from '../../support/data/tokens.ts';

const service = authority(1);
const base64url = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';

function passportOf(token: string): VerifiedPassport {
  const opened = openToken(token, service.keys);
  if (opened.kind === 'refused') throw new Error(opened.reason);
  const admitted = admitToken(opened, true);
  if (admitted.kind === 'refused') throw new Error(admitted.reason);
  return admitted.passport;
}

describe('the cache of verified passports', () => {
  const token = service.token();
  const passport = passportOf(token);

  it('finds exactly the token that it remembers', () => {
    const cache = verifiedCache(10);
    expect(cache.find(token)).toBeNull();
    cache.remember(token, passport);
    expect(cache.find(`${token}`)).toBe(passport);
  });

  it('does not know a token that differs in any one character, wherever it is', () => {
    const cache = verifiedCache(10);
    cache.remember(token, passport);
    const change = fc.record({
      at: fc.nat({ max: token.length - 1 }),
      to: fc.constantFrom(...base64url, '.', '=', ' ', '\u0141'),
      how: fc.constantFrom('replace', 'insert', 'delete'),
    });
    fc.assert(
      fc.property(change, ({ at, to, how }) => {
        const rest = token.slice(how === 'insert' ? at : at + 1);
        const changed = token.slice(0, at) + (how === 'delete' ? '' : to) + rest;
        fc.pre(changed !== token);
        expect(cache.find(changed)).toBeNull();
      }),
      { numRuns: 500 },
    );
  });

  it('does not know another payload under a copied signature', () => {
    const cache = verifiedCache(10);
    cache.remember(token, passport);
    const signature = token.slice(token.lastIndexOf('.'));
    const other = service.token({ permissions: ['admin:*'] });
    const forged = other.slice(0, other.lastIndexOf('.')) + signature;
    expect(forged.slice(-86)).toBe(token.slice(-86));
    expect(cache.find(forged)).toBeNull();
    expect(cache.find(token)).toBe(passport);
  });

  it('does not return the last hit once another token has its place', () => {
    const cache = verifiedCache(10);
    const other = `x${token}`;
    const otherPassport = { ...passport, tokenHash: 'of the other' };
    cache.remember(token, passport);
    expect([cache.find(token), cache.find(token), cache.find(other)]).toEqual([passport, passport, null]);
    cache.remember(other, otherPassport);
    expect([cache.find(token), cache.find(other), cache.find(token)]).toEqual([null, otherPassport, null]);
  });

  it('knows nothing that is shorter than a signature', () => {
    const cache = verifiedCache(10);
    cache.remember(token, passport);
    for (const short of ['', '.', token.slice(-86), token.slice(-87)]) expect(cache.find(short)).toBeNull();
  });

  it('holds no more than its capacity and forgets the least recently used first', () => {
    const cache = verifiedCache(2);
    const [a, b, c] = [service.token(), service.token(), service.token()];
    cache.remember(a, passportOf(a));
    cache.remember(b, passportOf(b));
    must(cache.find(a), 'a is remembered');
    cache.remember(c, passportOf(c));
    expect(cache.size).toBe(2);
    expect([a, b, c].map((one) => cache.find(one) !== null)).toEqual([true, false, true]);
  });

  it('is bounded by the characters of its tokens too', () => {
    const cache = verifiedCache(1_000, 3 * token.length);
    for (let n = 0; n < 10; n++)
      cache.remember(`${token.slice(0, -2)}${String(n).padStart(2, '0')}`, passport);
    expect(cache.size).toBe(3);
    // One that is larger than the whole cache is simply not remembered.
    const tiny = verifiedCache(10, token.length - 1);
    tiny.remember(token, passport);
    expect([tiny.size, tiny.find(token)]).toEqual([0, null]);
  });
});
