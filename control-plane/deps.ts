import type { Registry } from 'prom-client';
import type { Bus } from '../shared/bus/bus.ts';
import type { Ed25519 } from '../shared/crypto/ed25519.ts';
import type { Sealer } from '../shared/crypto/seal.ts';
import type { Clock } from '../shared/runtime/clock.ts';
import type { Logger } from '../shared/runtime/logger.ts';
import type { Random } from '../shared/runtime/random.ts';
import type { Database } from './base/database.ts';
import type { OwnVoids } from './decisions/own-voids.ts';
import type { SigningKeys } from './signing-keys/signing-keys.ts';
import type { DecisionTurns } from './storage/decision-turns.ts';
import type { FairShare } from './storage/fair-share.ts';
import type { GuardedFetch } from './webhooks/guarded-fetch.ts';

/** Whether this process still appends to chains: a broken invariant there stops it until a restart (see append-records.ts). */
export interface Appending {
  isStopped: boolean;
}

/** Whether this program is about to stop: it still answers, but it is not ready, and closes each connection behind its answer. */
export interface Draining {
  isDraining: boolean;
}

/** Everything the rooms of the control plane need from outside; built in main.ts or by a test. */
export interface Deps {
  readonly sql: Database;
  readonly clock: Clock;
  readonly random: Random;
  readonly bus: Bus;
  readonly logger: Logger;
  readonly metrics: Registry;
  readonly ed25519: Ed25519;
  readonly signingKeys: SigningKeys;
  readonly appending: Appending;
  readonly draining: Draining;
  /** Decisions of one account must not hold all connections while they wait for each other. */
  readonly turns: DecisionTurns;
  /** All searches of strangers together have a share of the database of their own (decisions §10). */
  readonly discoveries: FairShare<'everybody'>;
  /** Decisions whose commit got no answer from the database. */
  readonly ownVoids: OwnVoids;
  /** For what must lie in the database and must not be read there: sealed with MASTER_KEY. */
  readonly sealer: Sealer;
  /** The only way to addresses that callers of the API have chosen. */
  readonly outbound: GuardedFetch;
  /** `{PUBLIC_URL}/v1`: absolute addresses in answers, never taken from a request. */
  readonly baseUrl: string;
  /** MCP_API_KEYS: whether API keys open `/mcp` beside access tokens. */
  readonly opensToolsToKeys: boolean;
  /** Origin of the per-gate addresses. */
  readonly gateHost: string;
  /** Random per start: tells the replicas of the control plane apart in heartbeats and logs. */
  readonly replicaId: string;
}
