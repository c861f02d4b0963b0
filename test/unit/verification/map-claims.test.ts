import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { JsonPointer } from '../../../shared/model/federation.ts';
import { mapClaims, matches, valueAt } from '../../../shared/verification/map-claims.ts';
import { isNameOf } from '../../../shared/verification/name-form.ts';
import { type FederationSettings, parseStoredFederation } from '../../../shared/wire/api/federation.ts';
import { runs } from '../../support/base/runs.ts';

const at = (pointer: string) => pointer as JsonPointer;

describe('a pattern of subjects', () => {
  it('fits as the regular expression does that it stands for', () => {
    const text = fc.string({ unit: fc.constantFrom('a', 'b', ':', '.'), maxLength: 12 });
    const pattern = fc.string({ unit: fc.constantFrom('a', 'b', ':', '.', '*'), maxLength: 8 });
    fc.assert(
      fc.property(pattern, text, (shape, subject) => {
        const plain = shape
          .split('*')
          .map((part) => part.replaceAll('.', '\\.'))
          .join('.*');
        expect(matches(shape, subject)).toBe(new RegExp(`^${plain}$`, 's').test(subject));
      }),
      { numRuns: runs({ short: 2_000, long: 200_000 }) },
    );
  });

  it('takes no longer for a hostile one', () => {
    const pattern = '*a'.repeat(120);
    expect(matches(pattern, `${'a'.repeat(254)}b`)).toBe(false);
  });
});

describe('a pointer into a token', () => {
  const claims = { 'a/b': { '~': [1, { c: null }] }, toString: 'own', sub: 'x' };

  it.each([
    ['/sub', 'x'],
    ['/a~1b/~0/0', 1],
    ['/a~1b/~0/1/c', null],
    ['/toString', 'own'],
    ['/missing', undefined],
    ['/constructor', undefined],
    ['/a~1b/__proto__', undefined],
  ])('%s leads to what is there and to nothing inherited', (pointer, value) => {
    expect(valueAt(claims, at(pointer))).toBe(value);
  });
});

describe('the claims of a token', () => {
  const base: FederationSettings = {
    ...{ type: 'oidc', issuer: 'https://idp.example', audiences: ['gate'], is_pasted: true },
    ...{ trust_tier: 'L3', claims: { trust_tier: '/tier', owner: '/person/email', permissions: '/roles' } },
  };
  const map = (claims: object, settings: object = {}) =>
    mapClaims({ sub: 'x', exp: 2e9, ...claims }, parseStoredFederation({ ...base, ...settings }));

  it('give L1 where the mapped tier is absent, and no owner where that is', () => {
    for (const claims of [{}, { tier: null, person: null }, { person: {} }, { person: { email: null } }])
      expect(map(claims)).toMatchObject({ trustTier: 'L1', owner: null });
    expect(map({ tier: 'L3' })).toMatchObject({ trustTier: 'L3' });
    expect(map({ tier: 'L3' }, { trust_tier: 'L2' })).toMatchObject({ trustTier: 'L2' });
    expect(map({}, { claims: {} })).toMatchObject({ trustTier: 'L3' });
  });

  it.each([
    ...['L4', 'l2', '', 2, ['L2'], { L2: true }, true].map((tier) => ['/tier', { tier }] as const),
    ...['', ' \n', 7, ['ann'], {}, 'a'.repeat(257), 'spiffe://x/a/../b'].map(
      (email) => ['/person/email', { person: { email } }] as const,
    ),
    // Of a misread owner nobody could be suspended.
    ...['ann@example.com', 7, true].map((person) => ['/person/email', { person }] as const),
    ...[7, { a: 'b' }, ['a', 7]].map((roles) => ['/roles', { roles }] as const),
    ...['', 'a'.repeat(256), 7, ['x'], null].map((sub) => ['/sub', { sub }] as const),
  ])('at %s make no passport of another form: %j', (claim, claims) => {
    expect(map(claims)).toMatchObject({ reason: 'passport_malformed', claim });
  });

  it('name a subject of up to 255 characters', () => {
    expect(map({ sub: 'a'.repeat(255) })).toMatchObject({ subject: 'a'.repeat(255) });
  });

  it('name the user where a pointer leads to him, and nobody where nothing is', () => {
    const settings = { claims: { user: '/for/email' } };
    expect(map({ for: { email: 'Ann@Example.com' } }, settings)).toMatchObject({ user: 'ann@example.com' });
    expect(map({ for: { email: 'a'.repeat(255) } }, settings)).toMatchObject({ user: 'a'.repeat(255) });
    for (const claims of [{}, { for: null }, { for: {} }, { for: { email: null } }])
      expect(map(claims, settings)).toMatchObject({ user: null });
    expect(map({ for: { email: 'ann' } })).toMatchObject({ user: null });
    for (const email of ['', 7, true, {}, ['ann'], 'a'.repeat(256), 'a\u202eb', 'spiffe://x/a/../b'])
      expect(map({ for: { email } }, settings)).toMatchObject({
        ...{ reason: 'passport_malformed', claim: '/for/email' },
      });
    expect(map({ for: 'ann' }, settings)).toMatchObject({ reason: 'passport_malformed' });
  });

  it('name who acts for whom in order, as far as the chain has its form', () => {
    const act = (sub: unknown, then?: unknown) => ({ sub, iss: 'https://idp.example', act: then });
    const one = (sub: string) => ({ iss: 'https://idp.example', sub });
    expect(map({ act: act('a', act('b')) })).toMatchObject({ actors: [one('a'), one('b')] });
    expect(map({ act: { sub: 'a' } })).toMatchObject({ actors: [{ iss: null, sub: 'a' }] });
    const long = ['a', 'b', 'c', 'd', 'e', 'f'].reduceRight<unknown>(
      (then, sub) => act(sub, then),
      undefined,
    );
    expect(map({ act: long })).toMatchObject({ actors: ['a', 'b', 'c', 'd'].map(one) });
    for (const other of [
      undefined,
      null,
      'a',
      [act('a')],
      act(7),
      act('a\u202e'),
      { iss: 'x' },
      act('a'.repeat(256)),
    ])
      expect(map({ act: other })).toMatchObject({ actors: [] });
    expect(map({ act: act('a', act(7, act('c'))) })).toMatchObject({ actors: [one('a')] });
  });

  it('of a JWT-SVID name a SPIFFE ID, whatever names its subject', () => {
    const svid = { type: 'jwt-svid', issuer: 'spiffe://x', subjects: ['*'], claims: { agent_id: '/name' } };
    expect(map({ sub: 'spiffe://x/a', name: 'shop' }, svid)).toMatchObject({ subject: 'shop' });
    for (const sub of ['spiffe://x/a/../b', undefined])
      expect(map({ sub, name: 'shop' }, svid)).toMatchObject({ reason: 'passport_malformed', claim: '/sub' });
  });
});

describe('a name in a token', () => {
  it.each([
    'spiffe://example.org/agents/shop',
    'spiffe://example.org',
    'spiffe://a_b-1.c/A.b_c-9/...',
    'https://login.example.com/id/00Dx0/005?a=b&c#d',
    'https://idp.example/%C3%A9%20',
    'urn:example:a/../b',
    'system:serviceaccount:agents:shop',
    'repo:octo/shop:environment:my shop',
    'auth0|../x',
    '//x/../y',
  ])('%s is one', (name) => expect(isNameOf(name, 255)).toBe(true));

  it.each([
    ...['/agents/../admin', '/agents/./shop', '/agents//shop', '/agents/', '/..', '/.', '/agents/%2e%2e/a'],
    ...[
      '/agents/a b',
      '/agents/a?b',
      '/agents/a#b',
      '/agents/é',
      '/agents/a\\b',
      '/agents/a:b',
      '/',
      ' ',
      '?',
    ],
  ])('spiffe://example.org%s is none', (path) => {
    expect(isNameOf(`spiffe://example.org${path}`, 255)).toBe(false);
  });

  it.each([
    ...[
      'SPIFFE://example.org/a',
      'spiffe://Example.org/a',
      'spiffe:///a',
      'spiffe://a@b/c',
      'spiffe://a:1/c',
    ],
    ...['https://x/a/../b', 'https://x/a/.', 'https://x/a/%2e%2E/b', 'https://x/%61', 'https://x/a%2Fb'],
    ...['https://x/a b', 'https://x/a\\b', 'https://x/%', 'https://x/%4', 'https://x/é', 'api://x/..?y'],
  ])('%s is none', (name) => expect(isNameOf(name, 255)).toBe(false));

  it('that fits a pattern of SPIFFE IDs stays below it, however a reader normalises it', () => {
    const piece = fc.constantFrom(
      'agents',
      'admin',
      '.',
      '..',
      '',
      '%2e',
      'a?',
      '#',
      ' ',
      '/',
      'Shop',
      '...',
    );
    const path = fc.array(piece, { minLength: 1, maxLength: 5 }).map((pieces) => pieces.join('/'));
    fc.assert(
      fc.property(path, (rest) => {
        const name = `spiffe://example.org/agents/${rest}`;
        if (!isNameOf(name, 255)) return;
        expect(new URL(name).href).toBe(name);
        expect(new URL(name.replace('spiffe', 'https')).href).toBe(name.replace('spiffe', 'https'));
      }),
      { numRuns: runs({ short: 1_000, long: 100_000 }) },
    );
  });
});
