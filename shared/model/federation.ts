import type { Branded } from './brand.ts';
import type { Constraints } from './constraints.ts';
import type { AccountId, IssuerId } from './ids.ts';
import type { Mode } from './mode.ts';
import type { PermissionKey } from './permission.ts';
import { hourMs, minuteMs, secondMs, type UnixMillis } from './time.ts';
import type { TrustTier } from './trust-tier.ts';

/** Issuers of others, whose tokens are passports here (contract §4). */
export const federationTypes = ['oidc', 'jwks', 'jwt-svid'] as const;
export type FederationType = (typeof federationTypes)[number];

export const federatedAlgorithms = ['RS256', 'PS256', 'ES256', 'ES384', 'EdDSA'] as const;
export type FederatedAlgorithm = (typeof federatedAlgorithms)[number];

export const isFederatedAlgorithm = (value: unknown): value is FederatedAlgorithm =>
  federatedAlgorithms.some((known) => known === value);

/** RFC 6901, such as `/realm_access/roles`. */
export type JsonPointer = Branded<string, 'JsonPointer'>;

/** Where a token says what its passport becomes. Null: it does not. */
export interface FederatedClaims {
  /** Default `/sub`. Its value is the subject: one passport each. */
  readonly agentId: JsonPointer;
  readonly permissions: JsonPointer | null;
  readonly trustTier: JsonPointer | null;
  readonly owner: JsonPointer | null;
  /** Names the person for whom the agent acts, who may be a subject of the issuer, too. */
  readonly user: JsonPointer | null;
}

/** Who acts for whom by a token (RFC 8693 §4.1): a link of its chain of `act`. */
export interface Delegate {
  /** As the token names it; null: it does not. */
  readonly iss: string | null;
  readonly sub: string;
}

/** What an account says of an issuer of others. */
export interface Federation {
  readonly type: FederationType;
  /** `iss` of its tokens; of `jwt-svid`: the trust domain, such as `spiffe://example.org`. */
  readonly issuer: string;
  /** Null: the keys were pasted, or `oidc` discovery names their address. */
  readonly jwksUri: string | null;
  /** Whether the keys were pasted: they are never fetched and never too old. */
  readonly isPasted: boolean;
  readonly audiences: readonly string[];
  readonly algorithms: readonly FederatedAlgorithm[];
  /** Older keys verify nothing. */
  readonly maxKeyAgeMs: number;
  readonly claims: FederatedClaims;
  /** Values of the permissions claim, and what each grants. Null: the values are permissions. */
  readonly permissionMap: Readonly<Record<string, readonly PermissionKey[]>> | null;
  /** Granted to every subject. */
  readonly permissions: readonly PermissionKey[];
  /** The highest tier that its passports get. */
  readonly trustTier: TrustTier;
  /** Patterns with `*`; null: every subject. */
  readonly subjects: readonly string[] | null;
  /** Of each of its passports. */
  readonly constraints: Constraints;
}

/** A key of such an issuer. It verifies by its one algorithm only. */
export interface ForeignKey {
  /** Null: the issuer names it by none. */
  readonly kid: string | null;
  readonly algorithm: FederatedAlgorithm;
  /** base64url of its SubjectPublicKeyInfo. */
  readonly publicKey: string;
}

/** An issuer of others with its keys. */
export interface FederatedIssuer {
  readonly issuerId: IssuerId;
  readonly accountId: AccountId;
  readonly mode: Mode;
  /** Counts the changes of settings or keys. */
  readonly version: number;
  readonly federation: Federation;
  readonly keys: readonly ForeignKey[];
  /** When the keys were last read where they are published; null: pasted. */
  readonly keysAtMs: UnixMillis | null;
  /** Its passports may be in wallets: which ones has to be asked before any of them gets a PERMIT. */
  readonly hasWallets: boolean;
  /** The checked forms of its conditions, where they were told; else there are none. */
  readonly conditionForms?: readonly unknown[];
}

/**
 * Where a verified passport of another issuer comes from. The table that made it changes `keysAtMs` with each
 * reading of the same keys, and ends `isCurrent` with any other change: the passport is then verified again.
 */
export interface PassportSource {
  /** Counts the changes of settings or keys. */
  readonly version: number;
  readonly maxKeyAgeMs: number;
  keysAtMs: UnixMillis | null;
  isCurrent: boolean;
}

/**
 * Whether the keys were last read so long ago that they prove nothing (contract §4). Those that were read as
 * far ahead are of an unknown age: the clock was set back since.
 */
export const areKeysStale = ({ keysAtMs, maxKeyAgeMs }: PassportSource, nowMs: UnixMillis): boolean =>
  keysAtMs !== null && Math.abs(nowMs - keysAtMs) > maxKeyAgeMs;

/** In place of the hash of a passport's token, where each of its subject's tokens is one. No SHA-256. */
export const federatedTokenHash = 'federated';

/** Whether the passport is of another issuer, by the hash in its row. */
export const isFederated = (tokenHash: string): boolean => tokenHash === federatedTokenHash;

export const keyAgeMs = { min: 300 * secondMs, default: 24 * hourMs, max: 7 * 24 * hourMs } as const;
/** Longer tokens are refused: they would outlive what their issuer knows of the subject (contract §4). */
export const foreignLifetimeMsMax = 24 * hourMs;
/** An unknown `kid` causes at most one fetch in this time, over all replicas (contract §4). */
export const keyFetchMsMin = minuteMs;
