import { setImmediate as nextTurn } from 'node:timers/promises';
import { encodeBase64url } from '../../shared/crypto/base64url.ts';
import { thumbprint } from '../../shared/crypto/keyset.ts';
import { nonceBytes } from '../../shared/crypto/seal.ts';
import type { KeyPurpose } from '../../shared/model/signing-key.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { MasterKeyError, openSealed } from '../master-key/master-key.ts';
import type { SigningDeps } from './deps.ts';
import { signingLimits } from './limits.ts';
import type { SignPool } from './sign-pool.ts';
import { type ProvenMessage, type ProvenSignatures, signProven } from './sign-proven.ts';
import type { StoredSigningKey } from './signing-key-store.ts';
import type { SigningKey } from './signing-keys.ts';

const seedBytes = 32;
export const sealContext = (kid: string): string => `signing_keys/${kid}`;

/** A new key. From here on its private half exists only sealed, and opened in memory. */
export function makeSigningKey(
  deps: Pick<SigningDeps, 'random' | 'ed25519' | 'sealer'>,
  wanted: {
    readonly purpose: KeyPurpose;
    readonly notBeforeMs: UnixMillis;
    readonly createdAtMs: UnixMillis;
  },
): StoredSigningKey {
  const seed = deps.random.bytes(seedBytes);
  const { publicKey } = deps.ed25519.signer(seed);
  const kid = thumbprint(publicKey);
  return {
    ...wanted,
    kid,
    publicKey: encodeBase64url(publicKey),
    sealedPrivateKey: deps.sealer.seal(seed, sealContext(kid), deps.random.bytes(nonceBytes)),
    retiredAtMs: null,
    compromised: false,
  };
}

/**
 * Ready to sign. Throws MasterKeyError where the private half does not open, or is not that of the public
 * one or of the kid.
 */
export function openSigningKey(
  { ed25519, sealer, signPool }: Pick<SigningDeps, 'ed25519' | 'sealer'> & { readonly signPool?: SignPool },
  { kid, publicKey, sealedPrivateKey }: StoredSigningKey,
): SigningKey {
  const seed = openSealed(sealer, sealedPrivateKey, sealContext(kid));
  const signer = ed25519.signer(seed);
  if (encodeBase64url(signer.publicKey) !== publicKey || thumbprint(signer.publicKey) !== kid) {
    throw new MasterKeyError(
      `The two halves of signing key ${kid} do not belong together: the database was changed.`,
    );
  }
  return {
    kid,
    signer,
    sign: (message) => encodeBase64url(signer.sign(Buffer.from(message, 'utf8'))),
    signAll: async (messages) => {
      const isWorthATask = messages.length >= signingLimits.signTaskMessagesMin;
      const signed = isWorthATask ? await signPool?.sign(seed, messages) : null;
      return signed ?? Buffer.concat(messages.map((message) => signer.sign(Buffer.from(message, 'latin1'))));
    },
    signProven: async (asked) => {
      const isWorthATask = asked.length >= signingLimits.signTaskMessagesMin;
      const signed = isWorthATask ? await signPool?.signProven(seed, asked) : null;
      return signed ?? signInTurns(asked, (some) => signProven(ed25519, signer, some));
    },
  };
}

/** A few at a time, so that requests are answered in between. */
async function signInTurns(
  asked: readonly ProvenMessage[],
  signSome: (some: readonly ProvenMessage[]) => ProvenSignatures,
): Promise<ProvenSignatures> {
  const signed: (Uint8Array | null)[] = [];
  for (let from = 0; from < asked.length; from += signingLimits.signTaskMessagesMin) {
    if (from > 0) await nextTurn();
    signed.push(...signSome(asked.slice(from, from + signingLimits.signTaskMessagesMin)));
  }
  return signed;
}
