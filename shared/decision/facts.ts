import type { ApprovalDisplay, PresentedApproval } from '../model/approval.ts';
import type { PiiFinding } from '../model/attestation.ts';
import type { CheckName, DecisionReason, Outcome } from '../model/decision.ts';
import type { Delegate, PassportSource } from '../model/federation.ts';
import type { PermitHold } from '../model/hold.ts';
import type { DigestWords, IdDigest } from '../model/id-digest.ts';
import type { AccountId, ApprovalId, IssuerId, PassportId, WalletId } from '../model/ids.ts';
import type { Mode } from '../model/mode.ts';
import type { MicroUsd } from '../model/money.ts';
import type { PermissionKey } from '../model/permission.ts';
import type { PiiScan } from '../model/pii.ts';
import type { ProofDemand, ProofReplay, ProofScheme } from '../model/proof.ts';
import type { StandingApprovalTerms } from '../model/standing-approval.ts';
import type { UnixMillis, UnixSeconds } from '../model/time.ts';
import type { TrustTier } from '../model/trust-tier.ts';
import type { WindowLimit } from '../quota/window-limit.ts';
import type { CompiledApprovalRule } from './compile-approvals.ts';
import type { CompiledCondition } from './compile-conditions.ts';
import type { CompiledDomains } from './compile-domains.ts';

/**
 * Why a token is no passport of this service. Such a decision belongs to no passport's chain (contract §9).
 */
export type TokenRefusal = Extract<
  DecisionReason,
  'passport_malformed' | 'passport_signature_invalid' | 'passport_unknown_key' | 'issuer_untrusted'
>;

/**
 * The claims of a token with a verified signature, compiled once per token. Excludes time, revocation and
 * status, which every decision checks again.
 */
export interface VerifiedPassport {
  readonly passportId: PassportId;
  readonly issuerId: IssuerId;
  /** The issuer's account. */
  readonly accountId: AccountId;
  readonly agentId: string;
  readonly mode: Mode;
  readonly trustTier: TrustTier;
  /** Keys as granted: `orders:create`, or `orders:*` for a whole area. */
  readonly permissions: ReadonlySet<string>;
  readonly notBeforeS: UnixSeconds;
  /** Null: never. */
  readonly expiresAtS: UnixSeconds | null;
  /** The passport's own constraints; they apply on top of the gate's. */
  readonly allowedDomains: CompiledDomains | null;
  readonly perTransactionMicroUsd: MicroUsd | null;
  readonly spendWindows: readonly WindowLimit[];
  readonly spendNeedsAmount: boolean;
  readonly rateWindows: readonly WindowLimit[];
  readonly approvals: CompiledApprovalRule | null;
  readonly proof: ProofDemand;
  /** In their order. */
  readonly conditions: readonly CompiledCondition[];
  /** Those of a token of another issuer, without its id and times. Of our own: none. */
  readonly foreignClaims: Readonly<Record<string, unknown>>;
  /** Its holder's key, with which proofs of possession are made: `ed25519:…` or `p256:…`. */
  readonly agentKey: string;
  /** It was issued in a wallet: which one it draws on now has to be asked (contract §6). */
  readonly hasWallet: boolean;
  /** The key that signed it. */
  readonly keyId: string;
  /** Hex SHA-256 of the whole token. */
  readonly tokenHash: string;
  /**
   * Of passport, issuer, account and, if it has them, owner and user, at the places of `digestAt`: a sidecar
   * looks their standings up by these, and never hashes per request.
   */
  readonly digests: DigestWords;
  /** A person or team (contract §4). */
  readonly owner: string | null;
  /** For whom the agent acts; with the issuer, one user (contract §3). Never from a request. */
  readonly user: string | null;
  /** Whose units limits per user count (`userKeyOf`). Null: the passport's. */
  readonly userKey: IdDigest | null;
  /** The chain of `act` of a token of another issuer, who acts now first. Nothing is decided by it. */
  readonly actors: readonly Delegate[];
  /** Null: issued here. Else the issuer of others whose token this is. */
  readonly source: PassportSource | null;
  /** The name of the issuers of others among which its issuer was the only one to fit (KnownIssuers). */
  readonly among: string;
}

/** The known state of a verified passport, and its age. */
export interface PassportStanding {
  readonly status: 'active' | 'suspended' | 'revoked';
  readonly isIssuerSuspended: boolean;
  readonly isAccountSuspended: boolean;
  /** The key that signed it was declared compromised: the token is no longer believed. */
  readonly isKeyCompromised: boolean;
  /** It came into a wallet after it was issued, so that its token does not say so. */
  readonly isInWallet: boolean;
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

/**
 * What is known of the proof of possession that a request presents:
 *
 *   none         there is none
 *   unread       nobody has looked at it yet
 *   invalid      its form, binding or signature is wrong
 *   replayed     it was used before
 *   unavailable  the ledger, which counts it once over all sidecars, cannot be asked
 *   verified     signed by the passport's key for this request
 */
export type PresentedProof =
  | { readonly kind: 'none' | 'unread' | 'invalid' | 'replayed' | 'unavailable' }
  | VerifiedProof;

export interface VerifiedProof {
  readonly kind: 'verified';
  readonly scheme: ProofScheme;
  /** Accepted from then until then. */
  readonly fromMs: UnixMillis;
  readonly untilMs: UnixMillis;
  /** How far it is known to be used for the first time. */
  readonly firstUse: ProofReplay;
}

/** A request that wants its amount held. */
export interface HoldAsk {
  /** Null: as the gate has it. */
  readonly expiresInMs: number | null;
}

/** What a decision reads of a request (contract §5), parsed at the edge. Absent is null. */
export interface RequestFacts {
  readonly permissionKey: PermissionKey | null;
  readonly amountMicroUsd: MicroUsd | null;
  /** As given; anything but `USD` blocks. Null counts as USD. */
  readonly currency: string | null;
  /** Canonical host name. */
  readonly domain: string | null;
  /** Also null if the presented value is no approval id; `approval` is then `mismatch`. */
  readonly approvalId: ApprovalId | null;
  /**
   * State of the presented approval: `none` if none was presented, `unasked` until the store of approvals
   * was asked.
   */
  readonly approval: PresentedApproval;
  readonly idempotencyKey: string | null;
  readonly proof: PresentedProof;
  /** The amount is settled later (contract §19); how long, where the request says. */
  readonly hold: HoldAsk | null;
  /** For the person who is asked, if one is. It decides nothing. */
  readonly display: ApprovalDisplay | null;
  /** As its caller wrote it: what conditions read. */
  readonly asked: Readonly<Record<string, unknown>>;
  /** `sha256:` + hex over the RFC 8785 form of the request without `proof` and `approval_id`. */
  readonly requestHash: string;
  /** Findings for the policy's types; null if not scanned, because the policy has no PII controls. */
  readonly pii: PiiScan | null;
}

/** Current view of one window that a request would draw on. Units are requests or micro-USD. */
export interface WindowView {
  readonly limit: number;
  /** Units that can be taken immediately. */
  readonly available: number;
  /** Units taken here or used by others, as far as known; excludes units that are only lent. */
  readonly used: number;
  /** The ledger was asked for this request, so unavailable units cannot be had now. */
  readonly isFinal: boolean;
  /** Null: unknown so far. */
  readonly endsAtMs: UnixMillis | null;
}

/**
 * Views of the windows this request would draw on: the policy's, then the passport's own, each in its order.
 * And of the standing approvals that may be for its passport, which it draws on instead of waiting, and of
 * its wallets, which it draws on as well.
 */
export interface QuotaView {
  readonly spend: readonly WindowView[];
  readonly rate: readonly WindowView[];
  readonly standingApprovals: readonly StandingApprovalView[];
  /** Null: the passport is in no wallet. */
  readonly wallet: WalletView | null;
}

/** The wallets of a passport, from its own up to the root, as of a moment. */
export interface WalletView {
  /** `unknown`: the host has to ask which they are. `frozen`: one of them is. */
  readonly state: 'known' | 'frozen' | 'unknown';
  readonly levels: readonly WalletLevelView[];
}

export interface WalletLevelView {
  /** Null: of another account than that of the host, which must not tell its callers. */
  readonly walletId: WalletId | null;
  readonly spend: readonly WindowView[];
  readonly rate: readonly WindowView[];
}

/** What is left of a standing approval. */
export interface StandingApprovalView {
  readonly terms: StandingApprovalTerms;
  readonly window: WindowView;
}

/** The view of a request without windows. */
export const noWindows: QuotaView = Object.freeze({
  spend: [],
  rate: [],
  standingApprovals: [],
  wallet: null,
});

/**
 * What the caller takes from every window of the view: with a PERMIT at once, with a SUSPEND the money only,
 * for the approval to hold.
 */
export interface Charge {
  readonly moneyMicroUsd: MicroUsd;
  readonly requests: 0 | 1;
}

/** How a limit was missed, for the agent to adapt (contract §5). */
export interface LimitMiss {
  readonly unit: 'micro_usd' | 'requests';
  readonly limit: number;
  readonly used: number;
  readonly requested: number;
  /** Null: waiting does not help. */
  readonly resetAtMs: UnixMillis | null;
  /** Of a wallet: which one; null as in WalletLevelView. Absent: of a gate or a passport. */
  readonly walletId?: WalletId | null;
}

/**
 * What the caller has to find out, once or until its deadline, before deciding again. `proof`: whether the
 * presented proof is good and new. `leases`: units of at least one window whose view is not final.
 * `approval`: the state of the approval. If it cannot, this decision is the answer: BLOCK
 * `quota_unavailable`.
 */
export type Unknown = 'proof' | 'leases' | 'approval';

export interface Decision {
  readonly outcome: Outcome;
  readonly reason: DecisionReason | null;
  /** The checks that were configured and reached, in their order; frozen and shared between decisions. */
  readonly evaluated: readonly CheckName[];
  /**
   * The amount that counted, in dollars: the request's, or the catalog's price. Null without either, or in
   * another currency.
   */
  readonly amountMicroUsd: MicroUsd | null;
  /** Null for a BLOCK, and for a SUSPEND whose approval is pending already. */
  readonly charge: Charge | null;
  /**
   * The standing approval by which a PERMIT needs no person: its money is taken from there, too. With
   * `unknown: 'leases'`: the one of which units may be had. Else null.
   */
  readonly standingApproval: StandingApprovalTerms | null;
  readonly limitMiss: LimitMiss | null;
  readonly unknown: Unknown | null;
  /** Findings for answer and record. */
  readonly pii: readonly PiiFinding[];
  /** The caller answers with a copy of the request without the findings (`redact`). */
  readonly isRedacted: boolean;
  /** For a SUSPEND that opens an approval: how long it stays pending. */
  readonly approvalExpiresInMs: number | null;
  /** Of a PERMIT whose amount is settled later. */
  readonly hold: PermitHold | null;
  /** The conditions that failed until the decision, in their order. Null: there are none to ask. */
  readonly conditions: readonly string[] | null;
  /** The one that decided. */
  readonly condition: string | null;
  /** What its message says, or what could not be evaluated. Null: that of the reason. */
  readonly detail: string | null;
}
