import { ApiError } from '../../shared/errors/api-error.ts';

/**
 * Throws `service_unavailable` with the reason why this sidecar must not serve; null: it may. Its state is
 * never refreshed then, and its records are not shipped, until an operator intervenes.
 */
export function refuseWhereDisowned(mustNotServe: string | null): void {
  if (mustNotServe !== null) throw new ApiError('service_unavailable', { message: mustNotServe });
}
