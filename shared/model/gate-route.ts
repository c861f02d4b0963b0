import type { MicroUsd } from './money.ts';
import type { PermissionKey } from './permission.ts';

/** What a request needs that reaches a gate by its per-gate address (contract §15). */
export interface GateRoute {
  /** Case-sensitive, as HTTP has them. Null: every method. */
  readonly methods: readonly string[] | null;
  /** Decoded; segments `:name` and, at the end, `*` stand for what they do in Fastify's router. */
  readonly path: string;
  readonly permissionKey: PermissionKey;
  /** Null: the request has no amount of its own. */
  readonly amountMicroUsd: MicroUsd | null;
}
