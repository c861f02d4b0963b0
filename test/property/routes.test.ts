import fc from 'fast-check';
import findMyWay from 'find-my-way';
import { describe, expect, it } from 'vitest';
import { compileRoutes, matchRoute } from '../../shared/decision/compile-routes.ts';
import { pathProblem } from '../../shared/decision/read-path.ts';
import { parseGateRoutes } from '../../shared/wire/api/gate-routes.ts';
import { runs } from '../support/base/runs.ts';

/** Few and alike, so that routes and paths often meet. */
const literal = fc.constantFrom('a', 'b', 'A', 'ab', '.a', 'a b', 'a@b', 'caf\u00e9', '');
const segment = fc.oneof({ weight: 3, arbitrary: literal }, fc.constantFrom(':id', ':x'));
const withoutEmptyInside = (segments: readonly string[]): boolean => !segments.slice(0, -1).includes('');
const routePath = fc
  .tuple(fc.array(segment, { maxLength: 3 }), fc.constantFrom('', 'a', '*', ':last'))
  .map(([segments, last]) => [...segments, last])
  .filter(withoutEmptyInside)
  // One name for one parameter, as the router demands.
  .map(
    (segments) => `/${segments.map((each, at) => (each.startsWith(':') ? `${each}${at}` : each)).join('/')}`,
  );

/** In one of the ways in which a client may write the same characters. */
const writingsOf = (text: string): fc.Arbitrary<string> =>
  fc.constantFrom(
    encodeURI(text),
    encodeURIComponent(text),
    encodeURIComponent(text).toLowerCase(),
    [...Buffer.from(text)].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join(''),
  );
const written = literal.chain(writingsOf);
const pathOf = (segments: readonly string[]): string => `/${segments.join('/')}`;
const isPath = (path: string): boolean => pathProblem(path) === null;
const requestPath = fc.array(written, { minLength: 1, maxLength: 4 }).map(pathOf).filter(isPath);

/** A path made for a route. It fits, unless a name was filled in with nothing. */
const pathFor = (route: string): fc.Arbitrary<string> => {
  const segments = route.slice(1).split('/');
  const filledIn = segments.map((each) =>
    each.startsWith(':') || each === '*' ? written : writingsOf(each),
  );
  return fc
    .tuple(...filledIn)
    .map(pathOf)
    .filter(isPath);
};
/** Half of them made for one of the routes: of those that are drawn blindly one in eight fits. */
const requestPathsFor = (routes: readonly string[]): fc.Arbitrary<string[]> => {
  const either = fc.oneof(requestPath, fc.constantFrom(...routes).chain(pathFor));
  return fc.array(either, { minLength: 8, maxLength: 8 });
};
const routeAndPaths = routePath.chain((route) => fc.tuple(fc.constant(route), requestPathsFor([route])));
const routesAndPaths = fc
  .uniqueArray(routePath, { minLength: 2, maxLength: 4 })
  .chain((routes) => fc.tuple(fc.constant(routes), requestPathsFor(routes)));

/** The router that the paths of routes are written for, which is that of Fastify, with one route. */
function oracleOf(path: string): (url: string) => boolean {
  const router = findMyWay({ maxParamLength: 10_000 });
  router.on('GET', path, () => undefined);
  return (url) => router.find('GET', url) !== null;
}

const routesOf = (paths: readonly string[]) =>
  compileRoutes(parseGateRoutes(paths.map((path, index) => ({ path, permission_key: `area:p${index}` }))));

describe('routes of a gate', () => {
  it('fit the paths that they fit in the router of Fastify', () => {
    let fitting = 0;
    fc.assert(
      fc.property(routeAndPaths, ([path, urls]) => {
        const fitsOracle = oracleOf(path);
        const routes = routesOf([path]);
        for (const url of urls) {
          const fits = fitsOracle(url);
          if (fits) fitting += 1;
          expect([url, matchRoute(routes, 'GET', url).kind]).toEqual([url, fits ? 'route' : 'none']);
        }
      }),
      { numRuns: runs({ short: 150, long: 10_000 }) },
    );
    expect(fitting).toBeGreaterThan(100);
  });

  it('are tried in their order, and a path never gets the permission of a later one than Fastify would take', () => {
    const seen = { route: 0, none: 0, ambiguous: 0 };
    fc.assert(
      fc.property(routesAndPaths, ([paths, urls]) => {
        const oracles = paths.map(oracleOf);
        const routes = routesOf(paths);
        for (const url of urls) {
          const first = oracles.findIndex((fits) => fits(url));
          const match = matchRoute(routes, 'GET', url);
          seen[match.kind] += 1;
          if (match.kind === 'route') expect(match.demand.permissionKey).toBe(`area:p${first}`);
          else if (match.kind === 'none') expect(first).toBe(-1);
          else expect(first).not.toBe(-1);
        }
      }),
      { numRuns: runs({ short: 150, long: 10_000 }) },
    );
    expect(seen.route).toBeGreaterThan(100);
    expect(seen.ambiguous).toBeGreaterThan(0);
  });

  it('that are written plainly and differ in their first segment leave no path ambiguous', () => {
    const routes = routesOf(['/orders/:id', '/files/*', '/health']);
    fc.assert(
      fc.property(fc.constantFrom('/orders', '/files', '/health'), requestPath, (start, rest) => {
        expect(matchRoute(routes, 'GET', start + rest).kind).not.toBe('ambiguous');
      }),
      { numRuns: runs({ short: 500, long: 20_000 }) },
    );
  });
});
