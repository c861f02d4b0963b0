/** Room `control-plane/base`: dependencies of every room, and the types of the database (`database.ts`). */

import type { Registry } from 'prom-client';
import type { Bus } from '../../shared/bus/bus.ts';
import type { Ed25519 } from '../../shared/crypto/ed25519.ts';
import type { Sealer } from '../../shared/crypto/seal.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import type { Random } from '../../shared/runtime/random.ts';
import type { Tracer } from '../../shared/telemetry/tracer.ts';
import type { ConnectionShares } from './connection-shares.ts';
import type { Database } from './database.ts';

/**
 * Whether this program is about to stop: it still answers, but it is not ready and closes each connection
 * after its answer.
 */
export interface Draining {
  isDraining: boolean;
}

/**
 * Dependencies of every room that no room offers. A room that offers a service declares its own piece on top
 * of this; `Deps` of `control-plane/deps.ts` combines them.
 */
export interface BaseDeps {
  readonly sql: Database;
  readonly clock: Clock;
  readonly random: Random;
  readonly bus: Bus;
  readonly logger: Logger;
  readonly metrics: Registry;
  /** Null: no spans are exported. */
  readonly tracer: Tracer | null;
  /** Shares of the database connections. */
  readonly shares: ConnectionShares;
  readonly ed25519: Ed25519;
  readonly draining: Draining;
  /** Encrypts secrets in the database with MASTER_KEY. */
  readonly sealer: Sealer;
  /** `{PUBLIC_URL}/v1`: absolute addresses in answers, never taken from a request. */
  readonly baseUrl: string;
  /** MCP_API_KEYS: whether API keys open `/mcp` beside access tokens. */
  readonly opensToolsToKeys: boolean;
  /** Origin of the per-gate addresses. */
  readonly gateHost: string;
  /** Random per start: tells the replicas of the control plane apart in heartbeats and logs. */
  readonly replicaId: string;
}
