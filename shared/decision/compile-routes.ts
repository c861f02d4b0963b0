import type { GateRoute } from '../model/gate-route.ts';
import type { MicroUsd } from '../model/money.ts';
import type { PermissionKey } from '../model/permission.ts';

/**
 * How programs compare the path of a request with that of a route:
 *
 * - `fastify`: as Fastify's router does, which decodes all but the reserved characters. It decides.
 * - `decoded`: with everything decoded, as most proxies do.
 * - `encoded`: as it was sent, as Express does.
 * - `lax`: decoded, in lower case and without a slash at the end; Express again, unless it is told otherwise.
 */
const readings = ['fastify', 'decoded', 'encoded', 'lax'] as const;
type Reading = (typeof readings)[number];

interface CompiledRoute {
  readonly methods: ReadonlySet<string> | null;
  /** Null stands for any segment. */
  readonly segments: Readonly<Record<Reading, readonly (string | null)[]>>;
  /** `*`: at least one more segment follows, which may be empty. */
  readonly isOpen: boolean;
  readonly demand: RouteDemand;
}

/** What a route requires of a request. */
export interface RouteDemand {
  readonly permissionKey: PermissionKey;
  readonly amountMicroUsd: MicroUsd | null;
}

/** The routes of one version of a gate, in their order. */
export type CompiledRoutes = readonly CompiledRoute[];

/**
 * `ambiguous`: another reader of method and path would take a route with other requirements. A request must
 * not choose its permission by its spelling.
 */
export type RouteMatch =
  | { readonly kind: 'route'; readonly demand: RouteDemand }
  | { readonly kind: 'none' }
  | { readonly kind: 'ambiguous' };

/** Once for each version of a gate. The paths are those that `parseGateRoutes` accepts. */
export const compileRoutes = (routes: readonly GateRoute[]): CompiledRoutes => routes.map(compileRoute);

function compileRoute({ methods, path, permissionKey, amountMicroUsd }: GateRoute): CompiledRoute {
  const isOpen = path.endsWith('/*');
  const fixed = isOpen ? path.slice(0, -'/*'.length) : path;
  const segmentsFor = (reading: Reading) => {
    const literal = { fastify: same, decoded: same, encoded: encodeURI, lax: lowerCase }[reading];
    const closed = reading === 'lax' && !isOpen ? withoutLastSlash(fixed) : fixed;
    return segmentsOf(closed).map((segment) => (segment.startsWith(':') ? null : literal(segment)));
  };
  return {
    methods: methods === null ? null : new Set(methods),
    segments: {
      fastify: segmentsFor('fastify'),
      decoded: segmentsFor('decoded'),
      encoded: segmentsFor('encoded'),
      lax: segmentsFor('lax'),
    },
    isOpen,
    demand: { permissionKey, amountMicroUsd },
  };
}

/**
 * The first matching route (contract §15). `path` is as sent, without its query, and has no `pathProblem`. A
 * reading compares at most as many segments as all routes have together: no path causes backtracking.
 *
 * Fastify's own router (find-my-way) is not used, because it prefers the more specific route to the first
 * one, and takes regular expressions; a property test holds single routes against it.
 */
export function matchRoute(routes: CompiledRoutes, method: string, path: string): RouteMatch {
  const segments = segmentsRead(path);
  const chosen = firstFitting(routes, method, segments, 'fastify');
  if (chosen === null) return { kind: 'none' };
  for (const readMethod of methodsRead(method, chosen)) {
    for (const reading of readings) {
      const other = firstFitting(routes, readMethod, segments, reading);
      if (other !== null && !demandsTheSame(other.demand, chosen.demand)) return { kind: 'ambiguous' };
    }
  }
  return { kind: 'route', demand: chosen.demand };
}

/**
 * The methods that programs may take this one for: some uppercase it, as Django and Flask do, and most serve
 * HEAD with GET. A route that names HEAD without GET tells the two apart.
 */
function methodsRead(method: string, { methods }: CompiledRoute): readonly string[] {
  const capitals = method.toUpperCase();
  const isGetToo = capitals === 'HEAD' && (methods === null || methods.has('GET'));
  return [method, ...(capitals === method ? [] : [capitals]), ...(isGetToo ? ['GET'] : [])];
}

const demandsTheSame = (one: RouteDemand, other: RouteDemand): boolean =>
  one.permissionKey === other.permissionKey && one.amountMicroUsd === other.amountMicroUsd;

function firstFitting(
  routes: CompiledRoutes,
  method: string,
  segments: SegmentsRead,
  reading: Reading,
): CompiledRoute | null {
  for (const route of routes) {
    if (route.methods !== null && !route.methods.has(method)) continue;
    if (fits(route.segments[reading], route.isOpen, segments[reading])) return route;
  }
  return null;
}

function fits(wanted: readonly (string | null)[], isOpen: boolean, segments: readonly string[]): boolean {
  if (isOpen ? segments.length <= wanted.length : segments.length !== wanted.length) return false;
  return wanted.every((segment, index) => segment === null || segment === segments[index]);
}

const same = (text: string): string => text;
const lowerCase = (text: string): string => text.toLowerCase();
const withoutLastSlash = (path: string): string => (path.endsWith('/') ? path.slice(0, -1) : path);
/** The segments after each slash: one empty segment for `/`, none for the empty text. */
const segmentsOf = (path: string): readonly string[] => path.split('/').slice(1);

type SegmentsRead = Readonly<Record<Reading, readonly string[]>>;

/** Nearly all paths read the same in all ways, and are split only once. */
function segmentsRead(path: string): SegmentsRead {
  const encoded = segmentsOf(path);
  const segmentsIn = (text: string) => (text === path ? encoded : segmentsOf(text));
  const hasEscapes = path.includes('%');
  const decoded = hasEscapes ? decodeURIComponent(path) : path;
  return {
    fastify: hasEscapes ? segmentsIn(decodeURI(path)) : encoded,
    decoded: segmentsIn(decoded),
    encoded,
    lax: segmentsIn(withoutLastSlash(decoded.toLowerCase())),
  };
}
