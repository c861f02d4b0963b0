import type { PresentedApproval } from '../model/approval.ts';
import type { PiiFinding } from '../model/attestation.ts';
import type { CheckName, DecisionReason, Outcome } from '../model/decision.ts';
import type { DigestWords } from '../model/id-digest.ts';
import type { AccountId, ApprovalId, IssuerId, PassportId } from '../model/ids.ts';
import type { Mode } from '../model/mode.ts';
import type { MicroUsd } from '../model/money.ts';
import type { PermissionKey } from '../model/permission.ts';
import type { PiiScan } from '../model/pii.ts';
import type { UnixMillis, UnixSeconds } from '../model/time.ts';
import type { TrustTier } from '../model/trust-tier.ts';
import type { WindowLimit } from '../quota/window-limit.ts';
import type { CompiledApprovalRule } from './compile-approvals.ts';
import type { CompiledDomains } from './compile-domains.ts';

/**
 * Why a token is not a passport of this service at all. Such a decision belongs to no passport's chain
 * (contract §9).
 */
export type TokenRefusal = Extract<
  DecisionReason,
  'passport_malformed' | 'passport_signature_invalid' | 'passport_unknown_key'
>;

/**
 * The claims of a token whose signature verified, compiled once per token. Says nothing about time,
 * revocation or status: those are looked at again for every decision.
 */
export interface VerifiedPassport {
  readonly passportId: PassportId;
  readonly issuerId: IssuerId;
  /** The account of the issuer. */
  readonly accountId: AccountId;
  readonly agentId: string;
  readonly mode: Mode;
  readonly trustTier: TrustTier;
  /** Keys as granted: `orders:create`, or `orders:*` for a whole area. */
  readonly permissions: ReadonlySet<string>;
  readonly notBeforeS: UnixSeconds;
  /** Null: never. */
  readonly expiresAtS: UnixSeconds | null;
  /** The passport's own constraints; they count besides the gate's. */
  readonly allowedDomains: CompiledDomains | null;
  readonly perTransactionMicroUsd: MicroUsd | null;
  readonly spendWindows: readonly WindowLimit[];
  readonly spendNeedsAmount: boolean;
  readonly rateWindows: readonly WindowLimit[];
  readonly approvals: CompiledApprovalRule | null;
  /** The key that signed it. */
  readonly keyId: string;
  /** Hex SHA-256 of the whole token. */
  readonly tokenHash: string;
  /**
   * Of passport, issuer and account, at the places of `digestAt`: a sidecar looks their standings up by
   * these, and never hashes per request.
   */
  readonly digests: DigestWords;
}

/** What is known now about a verified passport, and how old that knowledge is. */
export interface PassportStanding {
  readonly status: 'active' | 'suspended' | 'revoked';
  readonly isIssuerSuspended: boolean;
  readonly isAccountSuspended: boolean;
  /** The key that signed it was declared compromised: the token is no longer believed. */
  readonly isKeyCompromised: boolean;
  /**
   * Time since this state was last known to be current, on the monotonic clock; 0 where it was read from the
   * database.
   */
  readonly stateAgeMs: number;
}

/** The outcome of verification: signatures stay outside of `decide`. */
export type PassportFacts =
  | { readonly kind: 'refused'; readonly reason: TokenRefusal }
  | {
      readonly kind: 'verified';
      readonly passport: VerifiedPassport;
      readonly standing: PassportStanding;
    };

/** What a decision reads of a request (contract §5), parsed at the edge. Absent is null. */
export interface RequestFacts {
  readonly permissionKey: PermissionKey | null;
  readonly amountMicroUsd: MicroUsd | null;
  /** As given; anything but `USD` blocks. Null counts as USD. */
  readonly currency: string | null;
  /** Canonical host name. */
  readonly domain: string | null;
  /** Null also where something was presented that is no id of an approval: `approval` is `mismatch` then. */
  readonly approvalId: ApprovalId | null;
  /**
   * State of the presented approval: `none` if none was presented, `unasked` until the store of approvals
   * was asked.
   */
  readonly approval: PresentedApproval;
  readonly idempotencyKey: string | null;
  /** `sha256:` + hex over the RFC 8785 form of the request without `proof` and `approval_id`. */
  readonly requestHash: string;
  /**
   * What a scan for the types of the policy found; null where it was not scanned, which is so where the
   * policy has no PII controls.
   */
  readonly pii: PiiScan | null;
}

/** One window that a request would draw on, as it is known here and now. Units are requests or micro-USD. */
export interface WindowView {
  readonly limit: number;
  /** Units that can be taken at once. */
  readonly available: number;
  /** Units that are taken, or used by others, as far as known; without those that are only lent. */
  readonly used: number;
  /** The ledger was asked for this request: what is not available is not to be had now. */
  readonly isFinal: boolean;
  /** Null: not known yet. */
  readonly endsAtMs: UnixMillis | null;
}

/**
 * Plain numbers about the windows this request would draw on: first those of the policy, then the passport's
 * own, each in their order there.
 */
export interface QuotaView {
  readonly spend: readonly WindowView[];
  readonly rate: readonly WindowView[];
}

/** The view of a request that draws on no window. */
export const noWindows: QuotaView = Object.freeze({ spend: [], rate: [] });

/**
 * What the caller takes from every window of the view: with a PERMIT at once, with a SUSPEND the money only,
 * for the approval to hold.
 */
export interface Charge {
  readonly moneyMicroUsd: MicroUsd;
  readonly requests: 0 | 1;
}

/** How a limit was missed, for the agent that wants to do better (contract §5). */
export interface LimitMiss {
  readonly unit: 'micro_usd' | 'requests';
  readonly limit: number;
  readonly used: number;
  readonly requested: number;
  /** Null: waiting does not help. */
  readonly resetAtMs: UnixMillis | null;
}

/**
 * What the caller has to find out before this can be decided: it does so, once or as long as its time lasts,
 * and decides again. `leases`: units of at least one window of the view that is not final. `approval`: the
 * state of the approval. If it cannot, this decision is the answer: BLOCK `quota_unavailable`.
 */
export type Unknown = 'leases' | 'approval';

export interface Decision {
  readonly outcome: Outcome;
  readonly reason: DecisionReason | null;
  /** The checks that were configured and reached, in their order; frozen and shared between decisions. */
  readonly evaluated: readonly CheckName[];
  /**
   * The amount that counted, in dollars: the request's, or the catalog's price. Null where neither gave one,
   * or one in another currency.
   */
  readonly amountMicroUsd: MicroUsd | null;
  /** Null for a BLOCK, and for a SUSPEND whose approval is pending already. */
  readonly charge: Charge | null;
  readonly limitMiss: LimitMiss | null;
  readonly unknown: Unknown | null;
  /** Findings that go into answer and record. */
  readonly pii: readonly PiiFinding[];
  /** The caller answers a copy of the request without what was found (`redact`). */
  readonly isRedacted: boolean;
  /** For a SUSPEND that opens an approval: how long it stays pending. */
  readonly approvalExpiresInMs: number | null;
}
