import type { PasskeyId, UserId } from './ids.ts';
import type { UnixMillis } from './time.ts';

/** A passkey as its user sees it. The private key is in the authenticator. */
export interface Passkey {
  readonly passkeyId: PasskeyId;
  readonly userId: UserId;
  /** As the authenticator names it; unique in the whole service. */
  readonly credentialId: string;
  readonly name: string;
  readonly createdAtMs: UnixMillis;
  /** Null: never. */
  readonly lastUsedAtMs: UnixMillis | null;
}
