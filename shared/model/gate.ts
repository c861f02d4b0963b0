import type { Actor } from './audit.ts';
import type { CatalogTerms } from './catalog.ts';
import type { Constraints } from './constraints.ts';
import type { GateRoute } from './gate-route.ts';
import type { AccountId, GateId } from './ids.ts';
import type { Mode } from './mode.ts';
import type { UnixMillis } from './time.ts';
import type { TrustTier } from './trust-tier.ts';

/** A policy checkpoint in front of something a resource server offers. */
export interface Gate {
  readonly gateId: GateId;
  readonly accountId: AccountId;
  readonly mode: Mode;
  readonly name: string;
  readonly description: string | null;
  readonly trustLevel: TrustTier;
  readonly constraints: Constraints;
  /** In the order in which they are tried; empty: the gate has none. */
  readonly routes: readonly GateRoute[];
  /** Of its newest catalog; null: none is published. */
  readonly catalogTerms: CatalogTerms | null;
  /** Rises by one with every change. */
  readonly version: number;
  /**
   * The version at which trust level, constraints, routes or catalog last changed. An approval is bound to it
   * (contract §8), so a new name or description leaves approvals alone.
   */
  readonly policyVersion: number;
  readonly createdAtMs: UnixMillis;
  readonly updatedAtMs: UnixMillis;
  /**
   * Who made the change at `updatedAtMs`, a new catalog included; null: an earlier version of the service,
   * which did not keep it.
   */
  readonly lastChangedBy: Actor | null;
}

/**
 * Decisions at a gate, as far as their attestations have arrived. Gate tests are not counted (contract §4).
 */
export interface GateStats {
  readonly totalRequests: number;
  readonly permits: number;
  readonly blocks: number;
  readonly lastRequestAtMs: UnixMillis | null;
}
