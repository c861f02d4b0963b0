import { constants, createPrivateKey, generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { foreignKeyBytes, foreignVerifier, readForeignKeys } from '../../../shared/crypto/foreign-key.ts';
import { must } from '../../../shared/errors/assert.ts';
import { type FederatedAlgorithm, federatedAlgorithms } from '../../../shared/model/federation.ts';

const message = Buffer.from('header.claims');
const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 });
const pairs = {
  RS256: rsa,
  PS256: rsa,
  ES256: generateKeyPairSync('ec', { namedCurve: 'P-256' }),
  ES384: generateKeyPairSync('ec', { namedCurve: 'P-384' }),
  EdDSA: generateKeyPairSync('ed25519'),
} satisfies Record<FederatedAlgorithm, { publicKey: KeyObject; privateKey: KeyObject }>;
const jwkOf = (key: KeyObject, more: object = {}) => ({ ...key.export({ format: 'jwk' }), ...more });

function signed(algorithm: FederatedAlgorithm): Buffer {
  const key = pairs[algorithm].privateKey;
  switch (algorithm) {
    case 'RS256':
      return sign('sha256', message, key);
    case 'PS256':
      return sign('sha256', message, {
        key,
        padding: constants.RSA_PKCS1_PSS_PADDING,
        saltLength: constants.RSA_PSS_SALTLEN_DIGEST,
      });
    case 'ES256':
      return sign('sha256', message, { key, dsaEncoding: 'ieee-p1363' });
    case 'ES384':
      return sign('sha384', message, { key, dsaEncoding: 'ieee-p1363' });
    default:
      return sign(null, message, key);
  }
}

describe('the keys of another issuer', () => {
  it('verify by one algorithm each, and by no other', () => {
    const signatures = new Map(federatedAlgorithms.map((algorithm) => [algorithm, signed(algorithm)]));
    for (const algorithm of federatedAlgorithms) {
      const jwks = { keys: [jwkOf(pairs[algorithm].publicKey, { alg: algorithm, kid: 'k' })] };
      const [key, ...others] = readForeignKeys(jwks, federatedAlgorithms).keys;
      expect(others).toEqual([]);
      const verify = foreignVerifier(algorithm, foreignKeyBytes(must(key, 'a key')));
      for (const [by, signature] of signatures)
        expect([algorithm, by, verify(message, signature)]).toEqual([algorithm, by, by === algorithm]);
      const signature = must(signatures.get(algorithm), 'a signature');
      expect(verify(Buffer.from('header.other'), signature)).toBe(false);
      for (const wrong of [Buffer.alloc(0), Buffer.alloc(signature.length), signature.subarray(1)])
        expect(verify(message, wrong)).toBe(false);
    }
  });

  it('without alg are bound by their curve, and of RSA by what is listed first', () => {
    const jwks = { keys: federatedAlgorithms.slice(1).map((each) => jwkOf(pairs[each].publicKey)) };
    const read = (algorithms: readonly FederatedAlgorithm[]) =>
      readForeignKeys(jwks, algorithms).keys.map(({ algorithm }) => algorithm);
    expect(read(federatedAlgorithms)).toEqual(['RS256', 'ES256', 'ES384', 'EdDSA']);
    expect(read(['PS256', 'RS256'])).toEqual(['PS256']);
    expect(read(['ES384'])).toEqual(['ES384']);
  });

  it('are passed over where they are for another use, weak or broken', () => {
    const good = jwkOf(pairs.ES256.publicKey, { kid: 'good' });
    const small = generateKeyPairSync('rsa', { modulusLength: 1024 }).publicKey;
    const others = [
      { ...good, use: 'enc' },
      { ...good, key_ops: ['sign'] },
      { ...good, alg: 'ES512' },
      { ...good, alg: 'RS256' },
      { ...good, crv: 'P-384' },
      { ...good, x: 'AAAA' },
      { ...good, kid: 7 },
      { ...good, kid: 'k'.repeat(300) },
      jwkOf(small, { alg: 'RS256' }),
      jwkOf(generateKeyPairSync('ec', { namedCurve: 'secp256k1' }).publicKey, { alg: 'ES256' }),
      // Of small order: anybody can sign for it.
      { kty: 'OKP', crv: 'Ed25519', x: Buffer.alloc(32).toString('base64url') },
      { kty: 'OKP', crv: 'X25519', x: Buffer.alloc(32, 9).toString('base64url') },
      'no key',
      null,
    ];
    const { keys, fault } = readForeignKeys({ keys: [...others, good] }, federatedAlgorithms);
    expect(keys.map(({ kid }) => kid)).toEqual(['good']);
    expect(fault).toBeNull();
    expect(readForeignKeys({ keys: [{ ...good, use: 'jwt-svid' }] }, ['ES256']).keys).toHaveLength(1);
  });

  it('are passed over and named where one is private or symmetric, or they are too many', () => {
    const { privateKey, publicKey } = pairs.ES256;
    const good = jwkOf(publicKey, { kid: 'good' });
    const secret = jwkOf(createPrivateKey(privateKey.export({ format: 'pem', type: 'pkcs8' })), { kid: 's' });
    for (const [others, words] of [
      [[secret], /^holds a private or symmetric key/],
      [[{ kty: 'oct', k: 'AAAA', kid: 'good' }], /^holds a private or symmetric key/],
      [[secret, ...Array.from({ length: 70 }, () => good)], /^holds .* and has 71 keys; at most 64/],
    ] as const) {
      const { keys, fault } = readForeignKeys({ keys: [...others, good] }, federatedAlgorithms);
      expect(new Set(keys.map(({ kid }) => kid))).toEqual(new Set(['good']));
      expect(keys.length).toBeLessThanOrEqual(64);
      expect(fault).toMatch(words);
    }
    // What cannot be used does not take the place of what can.
    const unused = Array.from({ length: 100 }, () => ({ ...good, use: 'enc' }));
    expect(readForeignKeys({ keys: [...unused, good] }, federatedAlgorithms)).toMatchObject({ fault: null });
  });

  it('are refused where none is left', () => {
    const refuse = (keys: unknown, words: RegExp) =>
      expect(() => readForeignKeys(keys, federatedAlgorithms)).toThrow(words);
    refuse({ keys: [{ kty: 'oct', k: 'AAAA' }] }, /symmetric/);
    refuse({ keys: [] }, /no key/);
    refuse({ keys: {} }, /array/);
    refuse([], /array/);
  });
});
