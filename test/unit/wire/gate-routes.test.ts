import { describe, expect, it } from 'vitest';
import { limits } from '../../../shared/model/limits.ts';
import { parseGateRoutes, renderGateRoutes } from '../../../shared/wire/api/gate-routes.ts';
import { refusal } from '../../support/base/refusal.ts';

const route = { path: '/orders', permission_key: 'orders:read' };
const refusalOf = (routes: unknown) => {
  const { param, message } = refusal(() => parseGateRoutes(routes));
  return { param, message };
};

describe('the routes of a gate', () => {
  it('are read into whole micro-dollars, and rendered as they were written', () => {
    const written = [
      { methods: ['GET', 'HEAD'], path: '/orders/:id', permission_key: 'orders:read' },
      { path: '/files/*', permission_key: 'files:read', amount_usd: 0.1 },
      { methods: ['M-SEARCH'], path: '/', permission_key: 'site:read', amount_usd: 0 },
    ];
    const routes = parseGateRoutes(written);
    expect(routes.map(({ amountMicroUsd }) => amountMicroUsd)).toEqual([null, 100_000, 0]);
    expect(renderGateRoutes(routes)).toEqual(written);
  });

  it.each([
    ...['/', '/*', '/a/:b/c/:d_2', '/a/*', '/a/', '/a.b-c_d~e', "/a!$&'+,=@b", '/caf\u00e9'],
    `/${'a'.repeat(limits.routePathCharsMax - 1)}`,
  ])('may have the path %j', (path) => {
    expect(parseGateRoutes([{ ...route, path }])[0]?.path).toBe(path);
  });

  it.each([
    ['orders', 'must begin with a slash'],
    ['/a?b=1', 'must hold neither a query nor a fragment'],
    ['/caf%C3%A9', 'without percent-encoding'],
    ['/a//b', 'two slashes in a row'],
    ['/a/../b', 'a segment that is . or ..'],
    ['/a\\b', 'no backslash'],
    ['/a;b', 'a semicolon'],
    ['/a\u0000b', 'an encoded control character'],
    ['/a\uff0fb', 'some readers turn into another one'],
    ['/a*', 'only as its whole last segment'],
    ['/a/:', 'a whole segment, such as :id'],
    ['/:id(^\\d+)', 'no backslash'],
    ['/a(b)', 'parentheses'],
    [`/${'a'.repeat(limits.routePathCharsMax)}`, 'must not have more than 256 characters'],
    [7, 'must be string'],
  ])('do not have the path %j', (path, sentence) => {
    const { param, message } = refusalOf([route, { ...route, path }]);
    expect(param).toBe('routes.1.path');
    expect(message).toContain('routes.1.path');
    expect(message).toContain(sentence);
  });

  it.each([
    [{ methods: [] }, 'routes.0.methods'],
    [{ methods: ['get'] }, 'routes.0.methods'],
    [{ methods: Array(limits.routeMethodsMax + 1).fill('GET') }, 'routes.0.methods'],
    [{ permission_key: 'orders:*' }, 'routes.0.permission_key'],
    [{ amount_usd: -1 }, 'routes.0.amount_usd'],
    [{ permision: 'orders:read' }, 'routes.0.permision'],
  ])('do not have %j', (change, param) => {
    expect(refusalOf([{ ...route, ...change }]).param).toBe(param);
  });

  it('are at most 256', () => {
    expect(parseGateRoutes(Array(256).fill(route))).toHaveLength(256);
    expect(refusalOf(Array(257).fill(route)).param).toBe('routes');
    expect(refusalOf({ 0: route }).param).toBe('routes');
  });
});
