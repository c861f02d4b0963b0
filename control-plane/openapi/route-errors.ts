import { catalogue, type ErrorCode } from '../../shared/errors/catalogue.ts';
import type { Scope } from '../../shared/model/scopes.ts';

/** What of a route decides which errors it can answer. */
export interface RouteFacts {
  readonly method: string;
  /** Null: public. */
  readonly scope: Scope | null;
  /** Whether an `Idempotency-Key` counts here. */
  readonly isIdempotent: boolean;
  /** Those of this operation in particular. */
  readonly own: readonly ErrorCode[];
}

/** Of every call that authenticates: each of them asks the database at least for the key. */
const ofCallers: readonly ErrorCode[] = [
  'unauthorized',
  'insufficient_scope',
  'account_suspended',
  'rate_limited',
  'internal_error',
  'overloaded',
  'service_unavailable',
];
const ofBodies: readonly ErrorCode[] = ['invalid_json', 'body_too_large'];

/** The codes that an operation can answer, by status in ascending order. */
export function errorsOfRoute(route: RouteFacts): ReadonlyMap<number, readonly ErrorCode[]> {
  const codes = new Set<ErrorCode>([
    ...(route.scope === null ? [] : (['invalid_request', ...ofCallers] as const)),
    ...(route.scope === null || route.method === 'GET' ? [] : ofBodies),
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
