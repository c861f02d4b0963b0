import type { MicroUsd } from './money.ts';
import type { PermissionKey } from './permission.ts';

/** The demand of a request at a gate's own address (contract §15). */
export interface GateRoute {
  /** Case-sensitive, as in HTTP. Null: every method. */
  readonly methods: readonly string[] | null;
  /** Decoded; `:name` segments and a final `*` mean the same as in Fastify's router. */
  readonly path: string;
  readonly permissionKey: PermissionKey;
  /** Null: the request has no amount of its own. */
  readonly amountMicroUsd: MicroUsd | null;
}
