import type { ForeignKey } from './federation.ts';
import type { AccountId, IssuerId, WalletId } from './ids.ts';
import type { Mode } from './mode.ts';
import type { UnixMillis } from './time.ts';
import type { TrustTier } from './trust-tier.ts';

export const issuerStatuses = ['active', 'suspended'] as const;
export type IssuerStatus = (typeof issuerStatuses)[number];

/** The issuer of passports. `domain` is an unverified claim (contract §4). */
export interface Issuer {
  readonly issuerId: IssuerId;
  readonly accountId: AccountId;
  readonly mode: Mode;
  readonly name: string;
  readonly domain: string | null;
  /** The highest tier a passport of this issuer may have. */
  readonly trustTier: TrustTier;
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly status: IssuerStatus;
  readonly isDefault: boolean;
  /** Its passports come into this one when they are issued or first seen. Null: into none. */
  readonly walletId: WalletId | null;
  readonly createdAtMs: UnixMillis;
  /** Of an issuer of others (contract §4). Null: its passports are issued here. */
  readonly federation: IssuerFederation | null;
}

/** What an issuer of others is, and how its keys are. */
export interface IssuerFederation {
  readonly version: number;
  /** In the public wire shape, normalised. */
  readonly settings: Readonly<Record<string, unknown>>;
  readonly keys: readonly ForeignKey[];
  /** When they were last read where they are published; null: pasted. */
  readonly keysAtMs: UnixMillis | null;
  /** Why they could not be read the last time; null: they could. */
  readonly fault: string | null;
}

/** Of the issuer that an account has without making one, as long as the account does not rename it. */
export const defaultIssuerName = 'Default issuer';
