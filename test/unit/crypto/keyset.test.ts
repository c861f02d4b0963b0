import { calculateJwkThumbprint } from 'jose';
import { describe, expect, it } from 'vitest';
import { encodeBase64url } from '../../../shared/crypto/base64url.ts';
import { chooseEd25519 } from '../../../shared/crypto/choose-ed25519.ts';
import { JwksError, keyset, parseJwks, renderJwks, thumbprint } from '../../../shared/crypto/keyset.ts';
import type { KeyPurpose, VerificationKey } from '../../../shared/model/signing-key.ts';
import type { UnixMillis } from '../../../shared/model/time.ts';
import { bytesOf } from '../../support/data/ed25519-edge-cases.ts';
import { rfc8032Vectors } from '../../vectors/rfc8032.ts';

const ed25519 = chooseEd25519();

function makeKey(
  purpose: KeyPurpose,
  seedByte: number,
  change: Partial<VerificationKey> = {},
): VerificationKey {
  const { publicKey } = ed25519.signer(new Uint8Array(32).fill(seedByte));
  return {
    kid: thumbprint(publicKey),
    purpose,
    publicKey: encodeBase64url(publicKey),
    notBeforeMs: 1_760_000_000_000 as UnixMillis,
    retiredAtMs: null,
    compromised: false,
    ...change,
  };
}

const passportKey = makeKey('passport', 1);
const catalogKey = makeKey('catalog', 2, { retiredAtMs: 1_770_000_000_123 as UnixMillis });
const attestationKey = makeKey('attestation', 3, { compromised: true });
const syncKey = makeKey('sync', 4);
const all = [passportKey, catalogKey, attestationKey, syncKey];

describe('keyset', () => {
  it('finds a key by its id and purpose, and by no other purpose', () => {
    const keys = keyset(ed25519, all);
    expect(keys.find('passport', passportKey.kid)?.key).toBe(passportKey);
    expect(keys.find('catalog', passportKey.kid)).toBeNull();
    expect(keys.find('attestation', passportKey.kid)).toBeNull();
    expect(keys.find('passport', 'nobody')).toBeNull();
    expect(keys.find('passport', '__proto__')).toBeNull();
  });

  it('verifies with the key it found', () => {
    const message = Buffer.from('m');
    const signature = ed25519.signer(new Uint8Array(32).fill(1)).sign(message);
    const keys = keyset(ed25519, all);
    expect(keys.find('passport', passportKey.kid)?.verify(message, signature)).toBe(true);
    expect(keys.find('catalog', catalogKey.kid)?.verify(message, signature)).toBe(false);
  });

  it('refuses a key that is unusable, and two keys of one id', () => {
    expect(() => keyset(ed25519, [{ ...passportKey, publicKey: 'AAAA' }])).toThrow(TypeError);
    expect(() => keyset(ed25519, [{ ...passportKey, publicKey: 'not base64url!' }])).toThrow(TypeError);
    expect(() => keyset(ed25519, [passportKey, passportKey])).toThrow();
  });
});

describe('thumbprint', () => {
  it('reproduces RFC 8037 Appendix A.3', () => {
    expect(thumbprint(bytesOf(rfc8032Vectors[0].publicKey))).toBe(
      'kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k',
    );
  });

  it('is what jose computes', async () => {
    for (const jwk of renderJwks(all).keys) expect(await calculateJwkThumbprint(jwk)).toBe(jwk.kid);
  });
});

describe('JWKS', () => {
  it('holds every key but those of purpose sync', () => {
    expect(renderJwks(all).keys.map(({ purpose }) => purpose)).toEqual([
      'passport',
      'catalog',
      'attestation',
    ]);
  });

  it('shows members as contract §11 names them', () => {
    expect(renderJwks([catalogKey]).keys[0]).toEqual({
      ...{ kty: 'OKP', crv: 'Ed25519', alg: 'EdDSA', use: 'sig', kid: catalogKey.kid, purpose: 'catalog' },
      ...{ x: catalogKey.publicKey, nbf: 1_760_000_000, retired_at: '2026-02-02T02:40:00.123Z' },
      compromised: false,
    });
  });

  it('is read back unchanged', () => {
    expect(parseJwks(JSON.parse(JSON.stringify(renderJwks(all))))).toEqual([
      passportKey,
      catalogKey,
      attestationKey,
    ]);
  });

  it('may hold keys of others, which are passed over', () => {
    const [jwk] = renderJwks([passportKey]).keys;
    const foreign = [
      null,
      'x',
      { kty: 'RSA', n: 'x', e: 'AQAB' },
      { ...jwk, purpose: 'else' },
      { ...jwk, crv: 'X25519' },
    ];
    expect(parseJwks({ keys: [...foreign, jwk] })).toEqual([passportKey]);
  });

  it.each([
    ['a kid that is not the thumbprint', { kid: catalogKey.kid }],
    ['another public key under the same kid', { x: catalogKey.publicKey }],
    ['a padded public key', { x: `${passportKey.publicKey}=` }],
    ['an nbf before 1970', { nbf: -1 }],
    ['a retirement that is no time', { retired_at: 'yesterday' }],
    ['no word on compromise', { compromised: undefined }],
  ])('is refused with %s', (_, change) => {
    const [jwk] = renderJwks([passportKey]).keys;
    expect(() => parseJwks({ keys: [{ ...jwk, ...change }] })).toThrow(JwksError);
  });

  it('is refused when it is not a JWKS, or repeats a key', () => {
    for (const other of [null, [], {}, { keys: {} }, 'keys'])
      expect(() => parseJwks(other)).toThrow(JwksError);
    const { keys } = renderJwks([passportKey]);
    expect(() => parseJwks({ keys: [...keys, ...keys] })).toThrow(JwksError);
  });
});
