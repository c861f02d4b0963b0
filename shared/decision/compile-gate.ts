import type { CatalogTerms } from '../model/catalog.ts';
import type { Constraints, PiiControls } from '../model/constraints.ts';
import type { AccountId, GateId, IssuerId } from '../model/ids.ts';
import { limits } from '../model/limits.ts';
import type { Mode } from '../model/mode.ts';
import type { MicroUsd } from '../model/money.ts';
import type { TrustTier } from '../model/trust-tier.ts';
import type { WindowLimit } from '../quota/window-limit.ts';
import { type CompiledApprovalRule, compileApprovals } from './compile-approvals.ts';
import { type CompiledDomains, compileDomains } from './compile-domains.ts';
import { compileRateWindows, compileSpendWindows, spendNeedsAmount } from './compile-windows.ts';

/**
 * Which issuers are trusted: every one (`'any'`), or the named ones, with those of the gate's own account
 * (`own`) or not.
 */
type TrustedIssuers = 'any' | { readonly own: boolean; readonly named: ReadonlySet<IssuerId> };

/**
 * What a passport and a request have to meet. A gate is one; `/enforce` without a gate has the one of
 * `noGate`.
 */
export interface CompiledPolicy {
  readonly mode: Mode;
  /** Whose gate it is. Null: there is none. */
  readonly accountId: AccountId | null;
  /** The account whose issuers are the own ones: that of the gate, and without one that of the caller. */
  readonly ownAccountId: AccountId;
  /** Null: no tier is demanded. */
  readonly trustLevel: TrustTier | null;
  /**
   * Knowledge about a passport that is older than this decides nothing. Null: any age will do (contract §4).
   */
  readonly stateAgeMsMax: number | null;
  readonly trustedIssuers: TrustedIssuers;
  /** Whether a request must name a permission. One that is named is checked everywhere. */
  readonly requiresPermission: boolean;
  /** Null: nothing is published, and every permission of the passport's will do. */
  readonly catalog: CatalogTerms | null;
  readonly allowedDomains: CompiledDomains | null;
  readonly pii: PiiControls | null;
  readonly perTransactionMicroUsd: MicroUsd | null;
  readonly spendWindows: readonly WindowLimit[];
  /** There are limits on money, and a request without an amount is blocked by them. */
  readonly spendNeedsAmount: boolean;
  readonly rateWindows: readonly WindowLimit[];
  readonly approvals: CompiledApprovalRule | null;
}

/** A gate with everything done that depends on the gate alone. Made once for each version of it. */
export interface CompiledGate extends CompiledPolicy {
  readonly gateId: GateId;
  readonly accountId: AccountId;
  readonly version: number;
  /** What an approval is bound to (contract §8). */
  readonly policyVersion: number;
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
    readonly trustLevel: TrustTier;
    readonly constraints: Constraints;
  },
  catalog: CatalogTerms | null = null,
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
    gateId: gate.gateId,
    version: gate.version,
    policyVersion: gate.policyVersion,
  };
}

const ownIssuers: TrustedIssuers = Object.freeze({ own: true, named: new Set<IssuerId>() });

function compileTrustedIssuers(configured: Constraints['trustedIssuers']): TrustedIssuers {
  if (configured === null) return ownIssuers;
  if (configured === 'any') return 'any';
  return { own: configured.own, named: new Set(configured.named) };
}

/**
 * The policy of `/enforce` without a gate (contract §5): the passport alone, with its own constraints. No
 * tier is demanded, but its issuer must be one of the caller's own account, and it must be of the world of
 * the key that the caller came with.
 */
export const noGate = (caller: { readonly accountId: AccountId; readonly mode: Mode }): CompiledPolicy => ({
  mode: caller.mode,
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
});

const noWindowLimits: readonly WindowLimit[] = Object.freeze([]);
