import { describe, expect, it } from 'vitest';
import { compileRoutes } from '../../../../shared/decision/compile-routes.ts';
import { parseGateRoutes } from '../../../../shared/wire/api/gate-routes.ts';
import {
  ContextReader,
  headersRead,
  lacksMethod,
} from '../../../../sidecar/intake/forward-auth/read-context.ts';

const routes = compileRoutes(
  parseGateRoutes([{ path: '/orders/:id', permission_key: 'orders:read', amount_usd: 0.3 }]),
);

/** What is read of a request with these headers, all of which are trusted. */
function contextOf(headers: Readonly<Record<string, string>>, pathBelow = '/', query = '') {
  return readWith(Object.keys(headers), headers, { pathBelow, query });
}

function readWith(
  trusted: readonly string[],
  headers: Readonly<Record<string, string>>,
  { pathBelow = '/', query = '', authorization = '' } = {},
) {
  const names = headersRead(trusted);
  const values = names.map((name) => headers[name] ?? '');
  const head = { method: 'GET', query, headers: values, authorization };
  return new ContextReader(names, trusted).read(head, pathBelow, routes);
}

describe('the context of a forwarded request', () => {
  it('is that of the request itself where no header is trusted', () => {
    expect(contextOf({}, '/orders/7', 'a=1')).toEqual({
      withoutPermission: null,
      request: { method: 'GET', path: '/orders/7?a=1', permission_key: 'orders:read', amount: 0.3 },
    });
  });

  it('is that of the trusted headers', () => {
    const { request } = contextOf({
      'x-forwarded-method': 'POST',
      'x-original-url': 'https://shop.example/orders/7?a=1',
      'x-forwarded-host': 'shop.example',
      'x-gate-permission': 'orders:create',
      'x-gate-amount': '12.500001',
      'x-forwarded-proto': 'https',
      'x-original-other': '',
    });
    expect(request).toEqual({
      ...{ method: 'POST', path: '/orders/7?a=1', permission_key: 'orders:create', amount: 12.500001 },
      ...{ domain: 'shop.example', headers: { 'x-forwarded-proto': 'https' } },
    });
  });

  it('has the amount of a header before that of the route, and no amount of a route that was not asked', () => {
    const target = { 'x-original-uri': '/orders/7' };
    expect(contextOf({ ...target, 'x-gate-amount': '0' }).request['amount']).toBe(0);
    expect(contextOf({ ...target, 'x-gate-permission': 'orders:create' }).request).not.toHaveProperty(
      'amount',
    );
  });

  it('has no permission for a whole URL without a path, or another scheme', () => {
    for (const target of [
      'https://shop.example',
      'ftp://shop.example/orders/7',
      'shop.example/orders/7',
      '*',
    ])
      expect(contextOf({ 'x-original-url': target }).withoutPermission).toContain(
        'does not begin with a slash',
      );
  });

  it('has no permission for a whole URL of which readers disagree where its path begins', () => {
    for (const target of ['http:///orders/7', 'http://shop.example\\admin/orders/7', 'http://\\x/orders/7'])
      expect([target, contextOf({ 'x-original-url': target }).withoutPermission]).toEqual([
        target,
        expect.stringContaining('can be read in more than one way'),
      ]);
  });
});

it('a target without its method is noticed', () => {
  expect(lacksMethod(['x-original-uri'])).toBe(true);
  expect(lacksMethod(['x-forwarded-uri', 'x-gate-permission'])).toBe(true);
  expect(lacksMethod(['x-original-uri', 'x-forwarded-method'])).toBe(false);
  expect(lacksMethod(['x-gate-permission'])).toBe(false);
  expect(lacksMethod([])).toBe(false);
});

describe('the proof of possession of a forwarded request', () => {
  const trusted = ['x-original-method', 'x-original-uri', 'x-forwarded-host', 'x-forwarded-proto'];
  const original = {
    'x-original-method': 'POST',
    'x-original-uri': '/orders/7?a=1',
    'x-forwarded-host': 'shop.example',
    'x-forwarded-proto': 'http',
  };
  const proofWith = (headers: Readonly<Record<string, string>>, names = trusted) =>
    readWith(names, headers, { authorization: 'Passport t' }).request['proof'];
  const signed = { 'signature-input': 'a=("@path");tag="web-bot-auth"', signature: 'a=:AA==:' };

  it('is of the original method and URL, which trusted headers say', () => {
    const url = 'http://shop.example/orders/7?a=1';
    expect(proofWith({ ...original, dpop: 'a.b.c' })).toEqual({ dpop: 'a.b.c', method: 'POST', url });
    const more = { 'content-digest': 'sha-256=:AA==:', 'x-agent-passport': 't', cookie: 'secret' };
    expect(proofWith({ ...original, ...signed, ...more })).toEqual({
      ...{ method: 'POST', url },
      headers: {
        ...signed,
        ...{ 'content-digest': 'sha-256=:AA==:', 'x-agent-passport': 't', authorization: 'Passport t' },
      },
    });
  });

  it.each([
    ['of a host that nothing trusted names', ['x-original-method', 'x-original-uri'], original, ''],
    [
      'over https where nothing trusted says otherwise',
      trusted.slice(0, 3),
      original,
      'https://shop.example/orders/7?a=1',
    ],
    ['of a whole URL', ['x-original-url'], { 'x-original-url': 'http://a.example/b' }, 'http://a.example/b'],
    ['of two schemes', trusted, { ...original, 'x-forwarded-proto': 'https, http' }, ''],
    ['of another scheme', trusted, { ...original, 'x-forwarded-proto': 'ws' }, ''],
  ])('is for the URL %s', (_which, names, headers, url) => {
    expect(proofWith({ ...headers, dpop: 'a.b.c' }, names)).toMatchObject({ url });
  });

  it('is the signature that is meant for us, before a DPoP proof of another token', () => {
    expect(proofWith({ ...original, ...signed, dpop: 'a.b.c' })).toMatchObject({ headers: signed });
    const ofProxy = { 'signature-input': 'a=("@path");tag="cdn"', signature: 'a=:AA==:' };
    expect(proofWith({ ...original, ...ofProxy, dpop: 'a.b.c' })).toMatchObject({ dpop: 'a.b.c' });
    expect(proofWith({ ...original, ...ofProxy })).toBeUndefined();
    expect(proofWith(original)).toBeUndefined();
  });
});
