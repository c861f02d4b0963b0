/**
 * Room `control-plane/base`: what every room may need from outside, and the types of the database
 * (`database.ts`).
 */

import type { Registry } from 'prom-client';
import type { Bus } from '../../shared/bus/bus.ts';
import type { Ed25519 } from '../../shared/crypto/ed25519.ts';
import type { Sealer } from '../../shared/crypto/seal.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import type { Random } from '../../shared/runtime/random.ts';
import type { ConnectionShares } from './connection-shares.ts';
import type { Database } from './database.ts';

/**
 * Whether this program is about to stop: it still answers, but it is not ready, and closes each connection
 * behind its answer.
 */
export interface Draining {
  isDraining: boolean;
}

/**
 * What every room may need from outside and no room offers. A room that offers a service to others declares
 * its own piece of dependencies on top of this; `Deps` of `control-plane/deps.ts` puts all of them together.
 */
export interface BaseDeps {
  readonly sql: Database;
  readonly clock: Clock;
  readonly random: Random;
  readonly bus: Bus;
  readonly logger: Logger;
  readonly metrics: Registry;
  /** How the connections to the database are shared out. */
  readonly shares: ConnectionShares;
  readonly ed25519: Ed25519;
  readonly draining: Draining;
  /** For what must lie in the database and must not be read there: sealed with MASTER_KEY. */
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
