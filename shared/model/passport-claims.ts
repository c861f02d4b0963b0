import type { Constraints } from './constraints.ts';
import type { AccountId, IssuerId, PassportId } from './ids.ts';
import type { Mode } from './mode.ts';
import type { PermissionKey } from './permission.ts';
import type { UnixSeconds } from './time.ts';
import type { TrustTier } from './trust-tier.ts';

/**
 * What a passport token says (contract §3), read out of its JSON. It says nothing about whether the token may
 * be trusted: that is the signature's part, and the passport's standing is kept elsewhere.
 */
export interface PassportClaims {
  readonly passportId: PassportId;
  readonly issuerId: IssuerId;
  /** What the issuer says its domain is; nobody verified it. */
  readonly issuerDomain: string | null;
  /** The account of the issuer. */
  readonly accountId: AccountId;
  readonly mode: Mode;
  readonly agentId: string;
  readonly agentName: string;
  readonly permissions: readonly PermissionKey[];
  readonly trustTier: TrustTier;
  /** The passport's own: only the keys that a passport may carry are ever set. */
  readonly constraints: Constraints;
  readonly issuedAtS: UnixSeconds;
  readonly notBeforeS: UnixSeconds;
  /** Null: never. */
  readonly expiresAtS: UnixSeconds | null;
  /** The agent's key: `ed25519:` + base64url of 32 bytes. */
  readonly publicKey: string;
}
