import { type Static, Type } from 'typebox';
import { pathProblem, pathProblems } from '../../decision/read-path.ts';
import { invalidRequest } from '../../errors/api-error.ts';
import type { GateRoute as Route } from '../../model/gate-route.ts';
import { limits } from '../../model/limits.ts';
import { amountUsdMax, parseUsd, renderUsd } from '../../model/money.ts';
import { isRequestablePermission, permissionCharsMax } from '../../model/permission.ts';
import { closed } from './fields.ts';
import { shapeReader } from './shape.ts';

/** One of `routes` of a gate (contract §15). The parser checks the texts and has better messages. */
export const GateRoute = closed({
  methods: Type.Optional(
    Type.Array(Type.String({ maxLength: limits.methodCharsMax }), {
      minItems: 1,
      maxItems: limits.routeMethodsMax,
    }),
  ),
  path: Type.String({ maxLength: limits.routePathCharsMax }),
  permission_key: Type.String({ maxLength: permissionCharsMax }),
  amount_usd: Type.Optional(Type.Number({ minimum: 0, maximum: amountUsdMax })),
});

export const GateRoutes = Type.Array(GateRoute, { maxItems: limits.gateRoutesMax });

const readRoutes = shapeReader(GateRoutes, 'routes');

/**
 * Reads the routes of a gate. Throws `invalid_request` naming the member at fault, such as `routes.3.path`. A
 * path that no request can have is refused too: its requests would fall through to the next route.
 */
export const parseGateRoutes = (value: unknown): readonly Route[] =>
  readRoutes(value).map((route, index) => parseRoute(route, `routes.${index}`));

function parseRoute(route: Static<typeof GateRoute>, at: string): Route {
  const { methods = null, path, permission_key: permissionKey, amount_usd: amountUsd } = route;
  const amountMicroUsd = amountUsd === undefined ? null : parseUsd(amountUsd);
  if (methods !== null) assertMethods(methods, `${at}.methods`);
  assertPath(path, `${at}.path`);
  if (!isRequestablePermission(permissionKey)) {
    throw invalidRequest(
      `${at}.permission_key`,
      `${at}.permission_key must be <area>:<action> in lower case, without *, at most ${permissionCharsMax} characters.`,
    );
  }
  if (amountUsd !== undefined && amountMicroUsd === null) {
    throw invalidRequest(
      `${at}.amount_usd`,
      `${at}.amount_usd must be a number of dollars from 0 to 1e9 with at most 6 decimals.`,
    );
  }
  return { methods, path, permissionKey, amountMicroUsd };
}

function assertMethods(methods: readonly string[], param: string): void {
  if (methods.every((method) => /^[A-Z][A-Z0-9-]*$/.test(method))) return;
  throw invalidRequest(param, `${param} must be methods in capitals, such as GET.`);
}

const parameterPattern = /^:[A-Za-z0-9_]+$/;

function assertPath(path: string, param: string): void {
  const refuse = (demand: string) => invalidRequest(param, `${param} ${demand}.`);
  if (!path.startsWith('/')) throw refuse('must begin with a slash');
  if (/[?#]/.test(path)) throw refuse('must hold neither a query nor a fragment');
  if (path.includes('\\')) throw refuse('must hold no backslash');
  if (path.includes('%')) throw refuse('is compared with decoded paths: write it without percent-encoding');
  const problem = pathProblem(encodeURI(path));
  if (problem !== null) throw refuse(`is a path that no request can have: it ${pathProblems[problem]}`);
  const segments = path.split('/').slice(1);
  segments.forEach((segment, index) => {
    if (segment.includes('*') && (segment !== '*' || index < segments.length - 1))
      throw refuse('may have * only as its whole last segment');
    if (segment.includes(':') && !parameterPattern.test(segment))
      throw refuse(
        'may have a colon only before the name of a parameter that is a whole segment, such as :id',
      );
    if (/[()]/.test(segment)) throw refuse('must hold no parentheses: regular expressions are not supported');
  });
}

export const renderGateRoutes = (routes: readonly Route[]): Static<typeof GateRoutes> =>
  routes.map(({ methods, path, permissionKey, amountMicroUsd }) => ({
    ...(methods === null ? {} : { methods: [...methods] }),
    path,
    permission_key: permissionKey,
    ...(amountMicroUsd === null ? {} : { amount_usd: renderUsd(amountMicroUsd) }),
  }));
