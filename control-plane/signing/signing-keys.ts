/**
 * Room `control-plane/signing`: the keys that this service signs with: loaded (`load-signing-keys.ts`),
 * sealed (`sealed-signing-key.ts`), followed (`follow-signing-keys.ts`), and threads that sign many records
 * at once (`sign-pool.ts`). The room `signing-keys` rotates them.
 */

import type { Signer } from '../../shared/crypto/ed25519.ts';
import { must } from '../../shared/errors/assert.ts';
import type { KeyPurpose, VerificationKey } from '../../shared/model/signing-key.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { ProvenMessage, ProvenSignatures } from './sign-proven.ts';
import type { StoredSigningKey } from './signing-key-store.ts';

/** A key that signs now. */
export interface SigningKey {
  readonly kid: string;
  /** base64url of the 64-byte Ed25519 signature over the UTF-8 of the message. */
  sign(message: string): string;
  /**
   * The 64-byte signatures over messages of ASCII characters and of one length, one after the other: by
   * threads where there are many, and the same bytes without them.
   */
  signAll(messages: readonly string[]): Promise<Buffer>;
  /**
   * For what the database says: a signature over each message whose proof verifies, so that writing to the
   * database is not enough to get one. By threads; without them in short turns of the event loop.
   */
  signProven(asked: readonly ProvenMessage[]): Promise<ProvenSignatures>;
  /** The same key for bytes: what `signPassportToken` takes. */
  readonly signer: Signer;
}

/** An invalid row of `signing_keys`: published nowhere, and signs nothing. */
export interface BadSigningKey {
  /** As the row says, cut short. */
  readonly kid: string;
  readonly purpose: string;
  readonly fault: string;
}

/** The service's own keys: one current per purpose, and all that ever verified. */
export interface SigningKeys {
  /**
   * To be asked for every signature, and within the transaction that stores it: another key takes over by the
   * clock.
   */
  current(purpose: KeyPurpose): SigningKey;
  /**
   * Of a purpose, for what must be trusted by a verifier that knows only an older key: the current one, then
   * the retired that are not compromised.
   */
  vouching(purpose: KeyPurpose): readonly SigningKey[];
  /** Current, coming and retired keys of all purposes. The same array until one of them changes. */
  all(): readonly VerificationKey[];
  /**
   * Of these rows, just read, the keys that may be published (contract §11): whose sealed half opens with
   * MASTER_KEY and fits public half and kid. An attacker with write access to the table but without
   * MASTER_KEY cannot make one.
   */
  sound(stored: readonly StoredSigningKey[]): readonly StoredSigningKey[];
  /** The other rows, as known last. */
  bad(): readonly BadSigningKey[];
  /**
   * Takes over what the database knows now. Calls work one after the other, so that an older state never
   * replaces a newer one. Rejects where that fails, and everything stays as it was.
   */
  reload(): Promise<void>;
}

/**
 * The one key of a purpose that signs at this moment: the newest whose time has come, and never one that is
 * retired or compromised. A replica whose clock is behind may find none whose time has come; it then takes
 * the next one, which is published already. `keys`: of that purpose, oldest first.
 */
export function currentKey<Key extends VerificationKey>(keys: readonly Key[], nowMs: UnixMillis): Key {
  const usable = keys.filter((key) => !hasEnded(key, nowMs));
  const current = usable.findLast(({ notBeforeMs }) => notBeforeMs <= nowMs) ?? usable[0];
  return must(current, 'every purpose has a key that is not retired');
}

/**
 * Whether a key signs nothing any more. What it signed before verifies for ever, unless it is compromised.
 */
export const hasEnded = ({ compromised, retiredAtMs }: VerificationKey, nowMs: UnixMillis): boolean =>
  compromised || (retiredAtMs !== null && retiredAtMs <= nowMs);
