import type { Actor } from './audit.ts';
import type { Constraints } from './constraints.ts';
import type { AccountId, IssuerId, PassportId, WalletId } from './ids.ts';
import type { Mode } from './mode.ts';
import type { PermissionKey } from './permission.ts';
import { isExpired, type UnixMillis } from './time.ts';
import type { TrustTier } from './trust-tier.ts';

export const passportStatuses = ['active', 'suspended', 'revoked', 'expired'] as const;
export type PassportStatus = (typeof passportStatuses)[number];

/** Why a passport or an owner of passports is suspended: it is while one of these stands (contract §4). */
export interface Suspension {
  /** The account, by a person or a key; or an issuer of others, by an event. */
  readonly cause: 'account' | IssuerId;
  readonly sinceMs: UnixMillis;
  /** Type of the security event. Null: none. */
  readonly event: string | null;
  /** Of a passport: it was stopped with this owner, whose suspension it is. Null: by itself. */
  readonly owner: string | null;
}

/** A stored passport. The token is a bearer credential, so only its SHA-256 is stored. */
export interface Passport {
  readonly passportId: PassportId;
  readonly accountId: AccountId;
  readonly mode: Mode;
  readonly issuerId: IssuerId;
  readonly issuerDomain: string | null;
  readonly agentId: string;
  readonly agentName: string;
  /** Always holds `agent_id`. */
  readonly subject: Readonly<Record<string, unknown>>;
  readonly permissions: readonly PermissionKey[];
  readonly constraints: Constraints;
  readonly trustTier: TrustTier;
  /** The wallet that it draws on. */
  readonly walletId: WalletId | null;
  /** The agent's key: `ed25519:` + base64url of 32 bytes. Empty for a passport of another issuer. */
  readonly publicKey: string;
  /** A person or team (contract §4). Null: none. */
  readonly owner: string | null;
  /** The person for whom the agent acts (contract §3). Null: nobody; or each token of another issuer says. */
  readonly user: string | null;
  /** Of another issuer: each token of its subject is a token of this passport. */
  readonly isFederated: boolean;
  /** As of reading: an unrevoked passport is `expired` from `expiresAtMs` on. */
  readonly status: PassportStatus;
  /** Oldest first. They stay through a revocation. */
  readonly suspendedBy: readonly Suspension[];
  readonly issuedAtMs: UnixMillis;
  /** Null: it never expires. Always a whole second. */
  readonly expiresAtMs: UnixMillis | null;
  readonly revokedAtMs: UnixMillis | null;
  readonly revocationReason: string | null;
  /**
   * Author of the first revocation; null: not revoked, or not recorded by an earlier version of the service.
   */
  readonly revokedBy: Actor | null;
  readonly metadata: Readonly<Record<string, unknown>>;
  /** PERMITs only (contract §3). */
  readonly useCount: number;
  readonly lastUsedAtMs: UnixMillis | null;
}

/**
 * The status at that moment: revocation is final, then expiry, then a suspension, which can be lifted
 * (contract §3).
 */
export function passportStatusAt(
  stored: { readonly status: PassportStatus; readonly expiresAtMs: UnixMillis | null },
  nowMs: UnixMillis,
): PassportStatus {
  if (stored.status === 'revoked') return 'revoked';
  return isExpired(stored, nowMs) ? 'expired' : stored.status;
}
