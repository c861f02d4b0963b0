import type { AccountId, ApiKeyId } from './ids.ts';
import type { Mode } from './mode.ts';
import type { Scope } from './scopes.ts';
import type { UnixMillis } from './time.ts';

/**
 * An API key as it is kept: never the key itself, only its SHA-256 and what a person needs to recognise it.
 */
export interface ApiKey {
  readonly keyId: ApiKeyId;
  readonly accountId: AccountId;
  readonly name: string;
  readonly scopes: readonly Scope[];
  readonly mode: Mode;
  /** Lower-case hex SHA-256 of the whole key. */
  readonly keyHash: string;
  /** The first 12 characters. */
  readonly prefix: string;
  readonly last4: string;
  readonly createdAtMs: UnixMillis;
  readonly expiresAtMs: UnixMillis | null;
  /**
   * The key with which this one ends: it was made, directly or not, through an access token that is based on
   * that key. Null: none.
   */
  readonly endsWithKeyId: ApiKeyId | null;
  readonly revokedAtMs: UnixMillis | null;
  readonly lastUsedAtMs: UnixMillis | null;
}
