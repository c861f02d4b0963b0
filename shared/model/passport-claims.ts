import type { Constraints } from './constraints.ts';
import type { AccountId, IssuerId, PassportId } from './ids.ts';
import type { Mode } from './mode.ts';
import type { PermissionKey } from './permission.ts';
import type { UnixSeconds } from './time.ts';
import type { TrustTier } from './trust-tier.ts';

/**
 * The claims of a passport token (contract §3), parsed. Not proof of trust: the signature is verified, and
 * the passport's standing kept, elsewhere.
 */
export interface PassportClaims {
  readonly passportId: PassportId;
  readonly issuerId: IssuerId;
  /** The issuer's claimed domain; unverified. */
  readonly issuerDomain: string | null;
  /** The account of the issuer. */
  readonly accountId: AccountId;
  readonly mode: Mode;
  readonly agentId: string;
  readonly agentName: string;
  readonly permissions: readonly PermissionKey[];
  readonly trustTier: TrustTier;
  /** The passport's own: only keys that a passport may carry are set. */
  readonly constraints: Constraints;
  /** It was issued in a wallet, and may be in another by now, or in none. */
  readonly hasWallet: boolean;
  readonly issuedAtS: UnixSeconds;
  readonly notBeforeS: UnixSeconds;
  /** Null: never. */
  readonly expiresAtS: UnixSeconds | null;
  /** The agent's key: `ed25519:` + base64url of 32 bytes. */
  readonly publicKey: string;
  /** A person or team. Null: none. */
  readonly owner: string | null;
  /** The person for whom the agent acts: with the issuer, one user (contract §3). Null: nobody. */
  readonly user: string | null;
}
