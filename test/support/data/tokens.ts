import { encodeBase64url } from '../../../shared/crypto/base64url.ts';
import { chooseEd25519 } from '../../../shared/crypto/choose-ed25519.ts';
import { keyset, thumbprint } from '../../../shared/crypto/keyset.ts';
import { signPassportToken } from '../../../shared/crypto/passport-token.ts';
import type { VerificationKey } from '../../../shared/model/signing-key.ts';
import type { UnixMillis } from '../../../shared/model/time.ts';
import { systemRandom } from '../../../shared/runtime/random.ts';

/** A service that signs passports, for tests without a control plane. */
export const ed25519 = chooseEd25519();
const random = systemRandom();
const now = Date.UTC(2026, 0, 1) as UnixMillis;

export function authority(seed: number) {
  const signer = ed25519.signer(new Uint8Array(32).fill(seed));
  const key: VerificationKey = {
    kid: thumbprint(signer.publicKey),
    purpose: 'passport',
    publicKey: encodeBase64url(signer.publicKey),
    notBeforeMs: now,
    retiredAtMs: null,
    compromised: false,
  };
  return {
    keys: keyset(ed25519, [key]),
    keysWithCompromise: keyset(ed25519, [{ ...key, compromised: true }]),
    token: (claims: Readonly<Record<string, unknown>> = {}) =>
      signPassportToken({ ...someClaims(), ...claims }, { kid: key.kid, signer }),
  };
}

const someClaims = () => ({
  iss: random.newId('iss', now),
  sub: 'agent-1',
  jti: random.newId('pass', now),
  iat: now / 1000,
  nbf: now / 1000,
  exp: now / 1000 + 3600,
  agent_name: 'Agent 1',
  permissions: ['orders:create'],
  trust_tier: 'L1',
  constraints: {},
  acct: random.newId('acct', now),
  mode: 'live',
  cnf: {
    jwk: {
      kty: 'OKP',
      crv: 'Ed25519',
      x: encodeBase64url(ed25519.signer(new Uint8Array(32).fill(5)).publicKey),
    },
  },
});

/** The same token with a valid-looking signature that is not one. */
export function withWrongSignature(token: string): string {
  const at = token.lastIndexOf('.') + 10;
  const other = token[at] === 'A' ? 'B' : 'A';
  return token.slice(0, at) + other + token.slice(at + 1);
}
