import type { Actor } from './audit.ts';
import type { CatalogTerms } from './catalog.ts';
import type { Constraints } from './constraints.ts';
import type { GateRoute } from './gate-route.ts';
import type { AccountId, GateId } from './ids.ts';
import type { Labels } from './labels.ts';
import type { Mode } from './mode.ts';
import type { UnixMillis } from './time.ts';
import type { TrustTier } from './trust-tier.ts';

/** A policy checkpoint in front of a resource server. */
export interface Gate {
  readonly gateId: GateId;
  readonly accountId: AccountId;
  readonly mode: Mode;
  readonly name: string;
  readonly description: string | null;
  readonly labels: Labels;
  readonly trustLevel: TrustTier;
  readonly constraints: Constraints;
  /** In matching order; empty: none. */
  readonly routes: readonly GateRoute[];
  /** The terms of its newest catalog; null: none published. */
  readonly catalogTerms: CatalogTerms | null;
  /** Rises by one with every change. */
  readonly version: number;
  /**
   * The version at which trust level, constraints, routes or catalog last changed. An approval is bound to it
   * (contract §8), so a new name, description or label leaves approvals
   * alone.
   */
  readonly policyVersion: number;
  /**
   * `policyHash` of that version (contract §9). Null: it was published by a control plane of the version
   * before, and is not kept yet.
   */
  readonly policyHash: string | null;
  readonly createdAtMs: UnixMillis;
  readonly updatedAtMs: UnixMillis;
  /**
   * The author of the change at `updatedAtMs`, including a new catalog; null: not recorded by an earlier
   * version of the service.
   */
  readonly lastChangedBy: Actor | null;
  /** Null: none is in force, but for its expiry, which is judged when it is used. */
  readonly shadow: GateShadow | null;
}

/** Decisions of a step of time: PERMIT, BLOCK, SUSPEND. */
export type StepCounts = readonly [permits: number, blocks: number, suspends: number];

/** What a shadow said until it was promoted. */
export interface PredictedCounts {
  readonly step_ms: number;
  /** The last step before the promotion comes first. */
  readonly steps: readonly StepCounts[];
}

/** What ends a shadow before it expires: the live policy changed, or somebody ended it. */
export const shadowEnds = ['policy_changed', 'gate_deleted', 'deleted', 'replaced', 'promoted'] as const;
export type ShadowEnd = (typeof shadowEnds)[number];

/** A policy that the gate tries beside its own (contract §4): it decides nothing, and is on record. */
export interface GateShadow extends Pick<Gate, 'trustLevel' | 'constraints' | 'routes'> {
  readonly policyHash: string;
  /** Of the live policy that it was made of. */
  readonly basePolicyHash: string;
  readonly createdAtMs: UnixMillis;
  readonly expiresAtMs: UnixMillis;
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
