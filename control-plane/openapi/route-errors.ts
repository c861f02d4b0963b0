import { catalogue, type ErrorCode } from '../../shared/errors/catalogue.ts';
import type { Scope } from '../../shared/model/scopes.ts';

/** What of a route decides which errors it can answer. */
export interface RouteFacts {
  readonly method: string;
  /** Null: public, or for whoever has a session. */
  readonly scope: Scope | null;
  /** Whether one of several scopes opens it, in place of `scope`. */
  readonly takesOneOfScopes: boolean;
  /** Whether each scope is one of them. */
  readonly takesAnyScope: boolean;
  /** Whether it needs a browser session, and no key opens it. */
  readonly needsSession: boolean;
  /** Whether an `Idempotency-Key` counts here. */
  readonly isIdempotent: boolean;
  /** Whether query parameters, which it has none of, are passed over. */
  readonly ignoresQuery: boolean;
  /** Those of this operation in particular. */
  readonly own: readonly ErrorCode[];
}

/** Of every call that authenticates: each of them asks the database at least for the key or the session. */
const ofCallers: readonly ErrorCode[] = [
  'unauthorized',
  'account_suspended',
  'rate_limited',
  'internal_error',
  'overloaded',
  'service_unavailable',
];
/** A browser session makes each of them from our own pages only. */
const ofChanges: readonly ErrorCode[] = [
  'invalid_json',
  'body_too_large',
  'unsupported_media_type',
  'cross_site_request',
];

/** The codes that an operation can answer, by status in ascending order. */
export function errorsOfRoute(route: RouteFacts): ReadonlyMap<number, readonly ErrorCode[]> {
  const needsScope = route.scope !== null || route.takesOneOfScopes;
  const authenticates = needsScope || route.needsSession;
  const codes = new Set<ErrorCode>([
    // An unknown parameter.
    ...(route.ignoresQuery ? [] : (['invalid_request'] as const)),
    ...(authenticates ? ofCallers : []),
    ...(needsScope && !route.takesAnyScope ? (['insufficient_scope'] as const) : []),
    ...(authenticates && route.method !== 'GET' ? ofChanges : []),
    ...(route.isIdempotent ? (['idempotency_conflict'] as const) : []),
    ...route.own,
  ]);
  const byStatus = new Map<number, ErrorCode[]>();
  // In the order of the catalogue, whatever the order above.
  for (const code of Object.keys(catalogue) as ErrorCode[]) {
    if (!codes.has(code)) continue;
    const { status } = catalogue[code];
    byStatus.set(status, [...(byStatus.get(status) ?? []), code]);
  }
  return new Map([...byStatus].toSorted(([one], [other]) => one - other));
}
