import { ApiError, invalidRequest } from '../../shared/errors/api-error.ts';
import { isId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import type { RequestHead } from './server.ts';

/** The endpoint of a URL of the sidecar. */
export type Route =
  /** `gateId` is the decoded path segment: such a gate need not exist. */
  | { readonly kind: 'check'; readonly gateId: string }
  | { readonly kind: 'check_batch'; readonly gateId: string }
  | { readonly kind: 'standing'; readonly gateId: string }
  | { readonly kind: 'enforce' }
  /** `attestationId` likewise. */
  | { readonly kind: 'outcome'; readonly attestationId: string }
  /** `pathBelow`: what follows the id of the gate, as it was sent; '/' where nothing does. */
  | { readonly kind: 'forward_auth'; readonly gateId: string; readonly pathBelow: string }
  | { readonly kind: 'stream' }
  | { readonly kind: 'evaluation' }
  | { readonly kind: 'evaluations' }
  | { readonly kind: 'authzen_configuration' }
  | { readonly kind: 'livez' }
  | { readonly kind: 'readyz' }
  | { readonly kind: 'metrics' }
  | { readonly kind: 'openapi' };

const checkPrefix = '/v1/gates/';
const checkSuffix = '/check';
const batchSuffix = '/check/batch';
const standingSuffix = '/standing';
const outcomePrefix = '/v1/attestations/';
const outcomeSuffix = '/outcome';

/** Where a WebSocket may be opened. */
export const streamPath = '/v1/stream';

const enforce: Route = { kind: 'enforce' };
const stream: Route = { kind: 'stream' };
const evaluation: Route = { kind: 'evaluation' };
const evaluations: Route = { kind: 'evaluations' };
const operations: ReadonlyMap<string, Route> = new Map([
  ['/.well-known/authzen-configuration', { kind: 'authzen_configuration' }],
  ['/livez', { kind: 'livez' }],
  ['/readyz', { kind: 'readyz' }],
  ['/metrics', { kind: 'metrics' }],
  ['/openapi.json', { kind: 'openapi' }],
]);

/**
 * Reads method and path. Throws `route_not_found` for what does not exist, a wrong method included, and
 * `invalid_request` for a path that cannot be read: a percent-encoding that is not valid, U+0000 in an id, or
 * a part that is too long. Nothing here reads the query.
 */
export function routeOf(head: Pick<RequestHead, 'method' | 'path'>): Route {
  const { method, path } = head;
  if (isForwardAuthPath(path)) return forwardAuthRoute(path);
  if (method === 'POST') {
    const checked = gateIdBefore(checkSuffix, path);
    if (checked !== null) return { kind: 'check', gateId: readGateId(checked) };
    const batched = gateIdBefore(batchSuffix, path);
    if (batched !== null) return { kind: 'check_batch', gateId: readGateId(batched) };
    if (path === '/v1/enforce') return enforce;
    const shown = gateIdBefore(standingSuffix, path);
    if (shown !== null) return { kind: 'standing', gateId: readGateId(shown) };
    const reported = idBetween(outcomePrefix, outcomeSuffix, path);
    if (reported !== null) return { kind: 'outcome', attestationId: readGateId(reported) };
    if (path === '/access/v1/evaluation') return evaluation;
    if (path === '/access/v1/evaluations') return evaluations;
  }
  if (method === 'GET' && path === streamPath) return stream;
  const found = method === 'GET' || method === 'HEAD' ? operations.get(path) : undefined;
  if (found !== undefined) return found;
  refuseTooLong(path);
  if (path.includes('%')) decode(path);
  throw new ApiError('route_not_found');
}

/**
 * Null: there is none. `/v1/gates/check` has no part for an id; one that is empty is the id of no gate, as at
 * the control plane.
 */
const gateIdBefore = (suffix: string, path: string): string | null => idBetween(checkPrefix, suffix, path);

function idBetween(prefix: string, suffix: string, path: string): string | null {
  if (!path.startsWith(prefix) || !path.endsWith(suffix)) return null;
  if (path.length < prefix.length + suffix.length) return null;
  const id = path.slice(prefix.length, -suffix.length);
  return id.includes('/') ? null : id;
}

function readGateId(part: string): string {
  refuseTooLong(part);
  if (!part.includes('%')) return part;
  const gateId = decode(part);
  if (gateId.includes('\0')) throw invalidRequest('id', 'A parameter must not contain U+0000.');
  return gateId;
}

function refuseTooLong(part: string): void {
  if (part.length > limits.pathParamCharsMax) {
    throw new ApiError('invalid_request', { message: 'A segment of the path is too long.' });
  }
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch (cause) {
    throw new ApiError('invalid_request', {
      message: 'The path contains an invalid percent-encoding.',
      cause,
    });
  }
}

/** The per-gate address, for every method (contract §15). Another segment in place of an id is no gate. */
function forwardAuthRoute(path: string): Route {
  const slashAt = path.indexOf('/', 1);
  const gateId = slashAt === -1 ? path.slice(1) : path.slice(1, slashAt);
  if (!isId('gate', gateId)) throw new ApiError('route_not_found');
  return { kind: 'forward_auth', gateId, pathBelow: slashAt === -1 ? '/' : path.slice(slashAt) };
}

/** Nothing else begins like this. */
export const isForwardAuthPath = (path: string): boolean => path.startsWith('/gate_');

/** Of these addresses the caller's own request id is read and sent back (OpenID AuthZEN 1.0 §10.1). */
export const isAuthzenPath = (path: string): boolean =>
  path === '/access/v1/evaluation' || path === '/access/v1/evaluations';
