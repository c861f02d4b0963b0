import type { AccountId, ApiKeyId } from './ids.ts';
import type { Mode } from './mode.ts';
import type { Scope } from './scopes.ts';
import type { UnixMillis } from './time.ts';

/** A stored API key: its SHA-256 and parts to recognise it by, never the key itself. */
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
   * The key that ends this one with its own end, because this one was made, directly or not, with an access
   * token of that key. Null: none.
   */
  readonly endsWithKeyId: ApiKeyId | null;
  readonly revokedAtMs: UnixMillis | null;
  readonly lastUsedAtMs: UnixMillis | null;
}
