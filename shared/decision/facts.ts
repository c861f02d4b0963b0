import type { CheckName, DecisionReason, Outcome } from '../model/decision.ts';
import type { AccountId, ApprovalId, IssuerId, PassportId } from '../model/ids.ts';
import type { Mode } from '../model/mode.ts';
import type { MicroUsd } from '../model/money.ts';
import type { PermissionKey } from '../model/permission.ts';
import type { UnixSeconds } from '../model/time.ts';
import type { TrustTier } from '../model/trust-tier.ts';
import type { CompiledDomains } from './compile-domains.ts';

/** Why a token is not a passport of this service at all. Such a decision belongs to no passport's chain (decisions §9). */
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
  /** The key that signed it. */
  readonly keyId: string;
  /** Hex SHA-256 of the whole token. */
  readonly tokenHash: string;
}

/** What is known now about a verified passport, and how old that knowledge is. */
export interface PassportStanding {
  readonly status: 'active' | 'suspended' | 'revoked';
  readonly isIssuerSuspended: boolean;
  readonly isAccountSuspended: boolean;
  /** The key that signed it was declared compromised: the token is no longer believed. */
  readonly isKeyCompromised: boolean;
  /** Time since this state was last known to be current, on the monotonic clock; 0 where it was read from the database. */
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

/** What a decision reads of a request (decisions §5), parsed at the edge. Absent is null. */
export interface RequestFacts {
  readonly permissionKey: PermissionKey | null;
  readonly amountMicroUsd: MicroUsd | null;
  /** As given; anything but `USD` blocks. Null counts as USD. */
  readonly currency: string | null;
  /** Canonical host name. */
  readonly domain: string | null;
  readonly approvalId: ApprovalId | null;
  /** `sha256:` + hex over the RFC 8785 form of the request without `proof` and `approval_id`. */
  readonly requestHash: string;
}

/** Plain numbers about the windows this request would draw on. No window is enforced yet; the type names the place. */
export interface QuotaView {
  readonly windows: readonly [];
}

/** The view of a request that draws on no window. */
export const noWindows: QuotaView = Object.freeze({ windows: [] as const });

/** What a PERMIT must take. Nothing yet; money and rate units follow with the leases. */
interface Charge {
  readonly moneyMicroUsd: MicroUsd;
}

/** How a limit was missed, for the agent that wants to do better (decisions §5). Money in micro-USD. */
export interface LimitMiss {
  readonly limit: MicroUsd;
  readonly used: MicroUsd;
  readonly requested: MicroUsd;
  /** Null: waiting does not help. */
  readonly resetAtS: UnixSeconds | null;
}

export interface Decision {
  readonly outcome: Outcome;
  readonly reason: DecisionReason | null;
  /** The checks that were configured and reached, in their order; frozen and shared between decisions. */
  readonly evaluated: readonly CheckName[];
  /** The amount that counted, in dollars: the request's, or the catalog's price. Null where neither gave one, or one in another currency. */
  readonly amountMicroUsd: MicroUsd | null;
  readonly charge: Charge | null;
  readonly limitMiss: LimitMiss | null;
}
