import { chooseEd25519 } from '../crypto/choose-ed25519.ts';
import type { Ed25519 } from '../crypto/ed25519.ts';
import { JwksError, type Keyset, keyset, parseJwks } from '../crypto/keyset.ts';

/**
 * The keys of the service, from the parsed JSON of its `/.well-known/jwks.json`, ready to verify. Null where
 * it is no JWKS of a service. Take it from the service itself over TLS, or keep one from earlier; not from
 * whoever handed you what you want to verify.
 */
export function serviceKeys(jwks: unknown, ed25519: Ed25519 = chooseEd25519()): Keyset | null {
  try {
    return keyset(ed25519, parseJwks(jwks));
  } catch (error) {
    if (error instanceof JwksError) return null;
    throw error;
  }
}
