import type { Condition } from './condition.ts';
import type { IssuerId, UserId } from './ids.ts';
import type { MicroUsd } from './money.ts';
import type { PermissionKey } from './permission.ts';
import type { ProofDemand } from './proof.ts';
import type { ApproverRole } from './user.ts';

/** The counter of a limit: one for the whole gate, one per passport, or one per user behind the agents. */
export type LimitScope = 'gate' | 'passport' | 'user';

export interface RateLimits {
  readonly requestsPerMinute: number | null;
  readonly requestsPerHour: number | null;
  readonly requestsPerDay: number | null;
  readonly per: LimitScope;
}

/**
 * The treatment of a request without an amount or price under a money rule: BLOCK `amount_missing`, or it
 * counts as 0 (contract §4).
 */
export const unpricedRules = ['block', 'permit'] as const;
export type UnpricedRule = (typeof unpricedRules)[number];

export interface SpendLimits {
  readonly perTransactionMicroUsd: MicroUsd | null;
  readonly dailyMicroUsd: MicroUsd | null;
  readonly monthlyMicroUsd: MicroUsd | null;
  readonly per: LimitScope;
  /** Fraction of a window's limit at which `spend_limit.approaching` fires. */
  readonly alertAt: number;
  /** Applies to the spend limits beside it and to `approvals.above_usd` of the same constraints. */
  readonly unpriced: UnpricedRule;
}

export const piiModes = ['log_only', 'redact', 'block'] as const;
export type PiiMode = (typeof piiModes)[number];

export const piiTypes = ['email', 'phone', 'payment_card', 'iban', 'us_ssn', 'ip_address'] as const;
export type PiiType = (typeof piiTypes)[number];

export interface PiiControls {
  readonly mode: PiiMode;
  readonly types: readonly PiiType[];
}

/** Who may answer the approvals of a gate (contract §8). */
export interface ApproverRule {
  /** People with one of these roles, or named in `users`. Both null: all who may answer approvals. */
  readonly roles: readonly ApproverRole[] | null;
  readonly users: readonly UserId[] | null;
  /** So many different people have to approve. */
  readonly count: number;
  /** The person who made the passport, or the key that asked, does not answer. */
  readonly notRequester: boolean;
  /** The person who owns the passport (contract §3) does not answer. */
  readonly notOwner: boolean;
  /** People who could have opened the links of each other's invitations count as one. */
  readonly independent: boolean;
}

export interface ApprovalRule {
  readonly aboveMicroUsd: MicroUsd | null;
  readonly permissions: readonly PermissionKey[];
  readonly expiresInMs: number;
  /** Gate only. Null: one answer, of a person or an API key. */
  readonly approvers: ApproverRule | null;
  /** Gate only. Each answer is signed with a passkey of the person who answers. */
  readonly passkey: boolean;
}

/** What becomes of a hold without an outcome: it counts as spent, or goes back (contract §19). */
export const holdExpiries = ['settle', 'release'] as const;
export type HoldExpiry = (typeof holdExpiries)[number];

/** A settlement above the hold: refused, or the difference is taken where limits have room. */
export const holdOverruns = ['refuse', 'charge'] as const;
export type HoldOverrun = (typeof holdOverruns)[number];

export interface HoldRule {
  readonly expiresInMs: number;
  readonly onExpiry: HoldExpiry;
  readonly overrun: HoldOverrun;
}

/** The issuers that a gate trusts by name. `own`: including all issuers of its account. */
export interface TrustedIssuerList {
  readonly own: boolean;
  readonly named: readonly IssuerId[];
  /** The index of `own` in the given order, if it is not first. */
  readonly ownAt?: number;
}

/**
 * The policy of a gate, and the part of it that a passport may carry (contract §4). A field is null if not
 * configured; nothing is ever "configured but ignored".
 */
export interface Constraints {
  readonly rateLimits: RateLimits | null;
  readonly spendLimits: SpendLimits | null;
  /** Canonical domain patterns: `api.example.com` or `*.example.com`, IDNA-encoded and lower-cased. */
  readonly allowedDomains: readonly string[] | null;
  readonly piiControls: PiiControls | null;
  readonly approvals: ApprovalRule | null;
  /** Gate only. Null: the issuers of the gate's own account. `'any'`: every issuer of this service. */
  readonly trustedIssuers: TrustedIssuerList | 'any' | null;
  readonly proofOfPossession: ProofDemand;
  /** Gate only. Null: `holdDefaults`. */
  readonly holds: HoldRule | null;
  /** In the order in which they are asked. Empty: none. */
  readonly conditions: readonly Condition[];
}

/** The issuers that a policy trusts by their ids. */
export const namedIssuers = ({ trustedIssuers }: Pick<Constraints, 'trustedIssuers'>): readonly IssuerId[] =>
  trustedIssuers === null || trustedIssuers === 'any' ? [] : trustedIssuers.named;
