import type { CheckedForm } from '../condition/form.ts';
import type { CatalogTerms } from '../model/catalog.ts';
import type { Constraints, PiiControls } from '../model/constraints.ts';
import type { GateShadow } from '../model/gate.ts';
import { holdDefaults } from '../model/hold.ts';
import type { AccountId, GateId, IssuerId } from '../model/ids.ts';
import { limits } from '../model/limits.ts';
import type { Mode } from '../model/mode.ts';
import type { MicroUsd } from '../model/money.ts';
import type { ProofDemand } from '../model/proof.ts';
import type { StandingApprovalTerms } from '../model/standing-approval.ts';
import type { UnixMillis } from '../model/time.ts';
import type { TrustTier } from '../model/trust-tier.ts';
import type { WindowLimit } from '../quota/window-limit.ts';
import { type CompiledApprovalRule, compileApprovals } from './compile-approvals.ts';
import { type CompiledCondition, compileConditions } from './compile-conditions.ts';
import { type CompiledDomains, compileDomains } from './compile-domains.ts';
import { compileRateWindows, compileSpendWindows, spendNeedsAmount } from './compile-windows.ts';

/**
 * Trusted issuers: all (`'any'`), or the named ones, with or without those of the gate's own account (`own`).
 */
export type TrustedIssuers = 'any' | { readonly own: boolean; readonly named: ReadonlySet<IssuerId> };

/**
 * Requirements on a passport and a request: a gate's, or those of `noGate` for `/enforce` without a gate.
 */
export interface CompiledPolicy {
  readonly mode: Mode;
  /** Null: no gate. */
  readonly gateId: GateId | null;
  /** Owner of the gate. Null: no gate. */
  readonly accountId: AccountId | null;
  /** The account whose issuers count as own: the gate's, or without a gate the caller's. */
  readonly ownAccountId: AccountId;
  /** Null: no tier required. */
  readonly trustLevel: TrustTier | null;
  /** Maximum age of a passport's state. Null: any age (contract §4). */
  readonly stateAgeMsMax: number | null;
  readonly trustedIssuers: TrustedIssuers;
  /** Whether a request must name a permission. A named permission is always checked. */
  readonly requiresPermission: boolean;
  /** Null: no catalog, so every permission of the passport is allowed. */
  readonly catalog: CatalogTerms | null;
  readonly allowedDomains: CompiledDomains | null;
  readonly pii: PiiControls | null;
  readonly perTransactionMicroUsd: MicroUsd | null;
  readonly spendWindows: readonly WindowLimit[];
  /** Money is limited, and a request without an amount is blocked. */
  readonly spendNeedsAmount: boolean;
  readonly rateWindows: readonly WindowLimit[];
  readonly approvals: CompiledApprovalRule | null;
  readonly proof: ProofDemand;
  /** In their order. */
  readonly conditions: readonly CompiledCondition[];
  /** How long money is held for a request that does not say (contract §19). */
  readonly holdExpiresInMs: number;
}

/** A gate with everything precomputed that depends only on it. Built once per version. */
export interface CompiledGate extends CompiledPolicy {
  readonly gateId: GateId;
  readonly accountId: AccountId;
  readonly version: number;
  /** The binding of an approval (contract §8). */
  readonly policyVersion: number;
  /** See Gate. */
  readonly policyHash: string | null;
  /** Whether a SUSPEND says whose key has asked: that person does not answer (contract §8). */
  readonly namesAsker: boolean;
  /** In force when this was compiled; the first to end comes first. */
  readonly standingApprovals: readonly StandingApprovalTerms[];
  /** Null: none. Whether it has expired is asked for each decision. */
  readonly shadow: CompiledShadow | null;
}

/** A policy that a gate tries beside its own. */
export interface CompiledShadow {
  readonly policy: CompiledPolicy;
  readonly policyHash: string;
  readonly expiresAtMs: UnixMillis;
  /**
   * It trusts other issuers than the gate: a token that is none at the gate may be one under the shadow, and
   * nobody has looked.
   */
  readonly trustsOthers: boolean;
}

export const stateAgeMsMaxOf: Readonly<Record<TrustTier, number | null>> = {
  L1: null,
  L2: limits.stateAgeL2MsMax,
  L3: limits.stateAgeL3MsMax,
};

export function compileGate(
  gate: {
    readonly gateId: GateId;
    readonly accountId: AccountId;
    readonly mode: Mode;
    readonly version: number;
    readonly policyVersion: number;
    readonly policyHash: string | null;
    readonly trustLevel: TrustTier;
    readonly constraints: Constraints;
    /** Of a sidecar's gate, whose constraints do not say it. */
    readonly namesAsker?: boolean;
    readonly holdExpiresInMs?: number;
    /** Absent: none. */
    readonly shadow?: Pick<GateShadow, 'trustLevel' | 'constraints' | 'policyHash' | 'expiresAtMs'> | null;
    /** Of its conditions, where they were told. */
    readonly conditionForms?: readonly CheckedForm[];
  },
  catalog: CatalogTerms | null = null,
  standingApprovals: readonly StandingApprovalTerms[] = [],
): CompiledGate {
  const { allowedDomains, spendLimits, rateLimits, trustedIssuers, piiControls } = gate.constraints;
  return {
    mode: gate.mode,
    accountId: gate.accountId,
    ownAccountId: gate.accountId,
    trustLevel: gate.trustLevel,
    stateAgeMsMax: stateAgeMsMaxOf[gate.trustLevel],
    trustedIssuers: compileTrustedIssuers(trustedIssuers),
    requiresPermission: true,
    catalog,
    allowedDomains: allowedDomains === null ? null : compileDomains(allowedDomains),
    pii: piiControls,
    perTransactionMicroUsd: spendLimits?.perTransactionMicroUsd ?? null,
    spendWindows: compileSpendWindows(spendLimits, 'gate'),
    spendNeedsAmount: spendNeedsAmount(spendLimits),
    rateWindows: compileRateWindows(rateLimits, 'gate'),
    approvals: compileApprovals(gate.constraints),
    proof: gate.constraints.proofOfPossession,
    conditions: compileConditions(gate.constraints.conditions, gate.conditionForms),
    gateId: gate.gateId,
    version: gate.version,
    policyVersion: gate.policyVersion,
    policyHash: gate.policyHash,
    namesAsker: gate.namesAsker ?? gate.constraints.approvals?.approvers?.notRequester ?? false,
    holdExpiresInMs: gate.holdExpiresInMs ?? (gate.constraints.holds ?? holdDefaults).expiresInMs,
    standingApprovals: [...standingApprovals].sort((one, other) => one.expiresAtMs - other.expiresAtMs),
    shadow: gate.shadow == null ? null : compileShadow(gate, gate.shadow, catalog),
  };
}

function compileShadow(
  gate: Parameters<typeof compileGate>[0],
  { policyHash, expiresAtMs, ...changed }: NonNullable<Parameters<typeof compileGate>[0]['shadow']>,
  catalog: CatalogTerms | null,
): CompiledShadow {
  const policy = compileGate({ ...gate, conditionForms: [], ...changed, policyHash, shadow: null }, catalog);
  const live = gate.constraints.piiControls?.types ?? [];
  const types = policy.pii?.types ?? [];
  const isScanned = types.length === live.length && types.every((type, place) => type === live[place]);
  return {
    // One list for one set of types: it is scanned for once.
    policy: policy.pii !== null && isScanned ? { ...policy, pii: { ...policy.pii, types: live } } : policy,
    policyHash,
    expiresAtMs,
    trustsOthers: !isSame(changed.constraints.trustedIssuers, gate.constraints.trustedIssuers),
  };
}

const isSame = (one: Constraints['trustedIssuers'], other: Constraints['trustedIssuers']): boolean =>
  JSON.stringify(one) === JSON.stringify(other);

const ownIssuers: TrustedIssuers = Object.freeze({ own: true, named: new Set<IssuerId>() });

function compileTrustedIssuers(configured: Constraints['trustedIssuers']): TrustedIssuers {
  if (configured === null) return ownIssuers;
  if (configured === 'any') return 'any';
  return { own: configured.own, named: new Set(configured.named) };
}

/**
 * The policy of `/enforce` without a gate (contract §5): the passport alone, with its own constraints. It
 * requires no tier, but the issuer must belong to the caller's account, and the mode must be that of the
 * caller's key.
 */
export const noGate = (caller: { readonly accountId: AccountId; readonly mode: Mode }): CompiledPolicy => ({
  mode: caller.mode,
  gateId: null,
  accountId: null,
  ownAccountId: caller.accountId,
  trustLevel: null,
  stateAgeMsMax: null,
  trustedIssuers: ownIssuers,
  requiresPermission: false,
  catalog: null,
  allowedDomains: null,
  pii: null,
  perTransactionMicroUsd: null,
  spendWindows: noWindowLimits,
  spendNeedsAmount: false,
  rateWindows: noWindowLimits,
  approvals: null,
  proof: 'off',
  conditions: noConditions,
  holdExpiresInMs: holdDefaults.expiresInMs,
});

const noConditions: readonly CompiledCondition[] = Object.freeze([]);
const noWindowLimits: readonly WindowLimit[] = Object.freeze([]);
