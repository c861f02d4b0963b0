import { describe, expect, it } from 'vitest';
import { isKnownTo, readIfMatch } from '../../../control-plane/http/entity-tag.ts';
import { readCookie } from '../../../control-plane/sessions/cookies.ts';
import { isIdentity, trimBlanks } from '../../../shared/wire/api/request-headers.ts';
import { shownPassport } from '../../../sidecar/intake/forward-auth/show-passport.ts';
import { assertHandshake } from '../../../sidecar/intake/stream/handshake.ts';

/** What JavaScript trims and HTTP does not, as bytes of a header. */
const strange = ['\u00a0', '\u000b', '\u000c', '\ufeff', '\u2003'];

describe('white space around the value of a header', () => {
  it('is space and tab', () => {
    expect(trimBlanks(' \t a b\t ')).toBe('a b');
    expect(trimBlanks('\t \t')).toBe('');
    for (const each of strange) expect(trimBlanks(`${each}a${each}`)).toBe(`${each}a${each}`);
  });

  it.each(strange)('is not %j: no cookie, passport, tag or handshake is found after it', (blank) => {
    const name = '__Host-agent_trust_session';
    expect(readCookie({ cookie: `a=1; \t${name}\t= x \t` }, name)).toBe('x');
    expect(readCookie({ cookie: `a=1;${blank}${name}=x` }, name)).toBeNull();
    expect(readCookie({ cookie: `${name}=${blank}x` }, name)).toBe(`${blank}x`);
    // Another reader takes the second of the two.
    expect(readCookie({ cookie: `${blank}${name}=theirs; ${name}=ours` }, name)).toBe('ours');
    expect(shownPassport(`Passport ${blank}token`, '').kind).toBe('passport_ambiguous');
    expect(shownPassport('Passport \t token\t', '')).toEqual({ kind: 'token', token: 'token' });
    expect(isKnownTo(`${blank}*`, '"a"')).toBe(false);
    expect(() => readIfMatch(`*${blank}`)).toThrow('If-Match');
    const handshake = (connection: string) => () =>
      assertHandshake([connection, 'websocket', '13', 'AAAAAAAAAAAAAAAAAAAAAA==', '']);
    expect(handshake(`keep-alive,\tUpgrade`)).not.toThrow();
    expect(handshake(`keep-alive,${blank}Upgrade`)).toThrow('WebSocket');
  });

  it('takes time that grows with the header', () => {
    const inner = ' '.repeat(1_000_000);
    expect(trimBlanks(`a${inner}b`)).toHaveLength(1_000_002);
  });
});

describe('isIdentity', () => {
  it.each(['', 'identity', 'Identity', ' identity\t', 'identity, identity'])('%j is', (coding) => {
    expect(isIdentity(coding)).toBe(true);
  });
  it.each(['gzip', 'identity, gzip', 'br', '\u00a0identity', 'identityx'])('%j is not', (coding) => {
    expect(isIdentity(coding)).toBe(false);
  });
});
