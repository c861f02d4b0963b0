import { describe, expect, it } from 'vitest';
import { compileRoutes, matchRoute } from '../../../shared/decision/compile-routes.ts';
import { limits } from '../../../shared/model/limits.ts';
import { parseGateRoutes } from '../../../shared/wire/api/gate-routes.ts';

const routesOf = (...routes: readonly object[]) => compileRoutes(parseGateRoutes(routes));
const permissionOf = (routes: ReturnType<typeof routesOf>, method: string, path: string): string => {
  const match = matchRoute(routes, method, path);
  return match.kind === 'route' ? match.demand.permissionKey : match.kind;
};

describe('routes', () => {
  it('are of their methods alone, as these are written', () => {
    const routes = routesOf(
      { methods: ['GET', 'HEAD'], path: '/orders', permission_key: 'orders:read' },
      { methods: ['POST'], path: '/orders', permission_key: 'orders:create', amount_usd: 2.5 },
      { path: '/any', permission_key: 'any:thing' },
    );
    expect(permissionOf(routes, 'HEAD', '/orders')).toBe('orders:read');
    expect(matchRoute(routes, 'POST', '/orders')).toEqual({
      kind: 'route',
      demand: { permissionKey: 'orders:create', amountMicroUsd: 2_500_000 },
    });
    for (const method of ['get', 'DELETE', '', 'GET ', 'toString'])
      expect(permissionOf(routes, method, '/orders')).toBe('none');
    expect(permissionOf(routes, 'PURGE', '/any')).toBe('any:thing');
  });

  it('give no permission to a path that another reader takes to another route', () => {
    const routes = routesOf(
      { path: '/admin', permission_key: 'admin:all' },
      { path: '/users/@me', permission_key: 'users:me' },
      { path: '/users/:id', permission_key: 'users:read' },
      { path: '/*', permission_key: 'site:read' },
    );
    expect(permissionOf(routes, 'GET', '/admin')).toBe('admin:all');
    expect(permissionOf(routes, 'GET', '/page')).toBe('site:read');
    // In turn: read as sent, without the last slash, in lower case, with reserved characters decoded.
    for (const path of ['/%61dmin', '/admin/', '/ADMIN', '/users/%40me', '/users/%40ME'])
      expect([path, permissionOf(routes, 'GET', path)]).toEqual([path, 'ambiguous']);
    // Every reader takes these to one route.
    for (const path of ['/users/Joe', '/users/joe%40example.com', '/users/joe%20doe'])
      expect([path, permissionOf(routes, 'GET', path)]).toEqual([path, 'users:read']);
  });

  it('give no permission to a method that another reader takes to another route', () => {
    const routes = routesOf(
      { methods: ['DELETE'], path: '/orders/:id', permission_key: 'orders:delete' },
      { methods: ['GET'], path: '/reports/:id', permission_key: 'reports:read', amount_usd: 5 },
      { path: '/*', permission_key: 'site:read' },
    );
    expect(permissionOf(routes, 'DELETE', '/orders/7')).toBe('orders:delete');
    // In turn: read in capitals, HEAD answered as GET, and both, also of a path that is written differently.
    for (const [method, path] of [
      ['delete', '/orders/7'],
      ['Delete', '/ORDERS/7/'],
      ['HEAD', '/reports/7'],
      ['head', '/Reports/7'],
    ] as const)
      expect([method, path, permissionOf(routes, method, path)]).toEqual([method, path, 'ambiguous']);
    // Every reader takes these to one route.
    for (const method of ['get', 'HEAD', 'PURGE'])
      expect([method, permissionOf(routes, method, '/orders/7')]).toEqual([method, 'site:read']);
  });

  it('tell HEAD from GET where a route names HEAD alone', () => {
    const get = { methods: ['GET'], path: '/reports/:id', permission_key: 'reports:read', amount_usd: 5 };
    const head = { methods: ['HEAD'], path: '/reports/*', permission_key: 'reports:look' };
    expect(permissionOf(routesOf(get, head), 'HEAD', '/reports/7')).toBe('reports:look');
    const both = { ...head, methods: ['GET', 'HEAD'] };
    expect(permissionOf(routesOf(get, both), 'HEAD', '/reports/7')).toBe('ambiguous');
    expect(permissionOf(routesOf(both, get), 'HEAD', '/reports/7')).toBe('reports:look');
  });

  it('that demand the same may be taken for each other', () => {
    const read = { permission_key: 'site:read' };
    const routes = routesOf({ path: '/page', ...read }, { path: '/*', ...read });
    expect(permissionOf(routes, 'GET', '/Page/')).toBe('site:read');
    const priced = routesOf({ path: '/page', ...read, amount_usd: 1 }, { path: '/*', ...read });
    expect(permissionOf(priced, 'GET', '/Page/')).toBe('ambiguous');
  });

  it('take time in proportion to path and routes, for the worst of both', () => {
    const deep = '/a'.repeat(limits.routePathCharsMax / 2 - 1);
    const routes = routesOf(
      ...Array.from({ length: limits.gateRoutesMax }, () => ({
        path: `${deep}/*`.slice(-limits.routePathCharsMax),
        methods: ['PUT'],
        permission_key: 'a:b',
      })),
    );
    const path = '/a'.repeat(limits.requestPathCharsMax / 2);
    expect(permissionOf(routes, 'GET', path)).toBe('none');
    expect(permissionOf(routes, 'PUT', path)).toBe('a:b');
  });
});
