import { generateKeyPairSync, type JsonWebKey, sign } from 'node:crypto';
import type { Installation } from './installation.ts';

const lifetimeS = 12 * 3_600;

/** Tokens of an issuer of others whose keys are pasted: what a sidecar does with them is the same. */
export interface ForeignTokens {
  /** A token of this subject; another one each time. */
  sign(subject: string): string;
}

/** Registers an issuer of others that grants `orders:create`. */
export async function foreignTokens(
  installation: Installation,
  algorithm: 'RS256' | 'ES256',
): Promise<ForeignTokens> {
  const { publicKey, privateKey } =
    algorithm === 'RS256'
      ? generateKeyPairSync('rsa', { modulusLength: 2_048 })
      : generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const jwk: JsonWebKey = publicKey.export({ format: 'jwk' });
  const issuer = `https://${algorithm.toLowerCase()}.example`;
  await installation.api('POST', '/issuers', {
    name: algorithm,
    federation: {
      ...{ type: 'jwks', issuer, audiences: ['gate'], permissions: ['orders:create'] },
      jwks: { keys: [{ ...jwk, kid: algorithm, alg: algorithm }] },
    },
  });
  const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const header = encode({ alg: algorithm, kid: algorithm, typ: 'JWT' });
  const iat = Math.floor(Date.now() / 1_000);
  let made = 0;
  return {
    sign: (sub) => {
      const claims = {
        iss: issuer,
        aud: 'gate',
        sub,
        iat,
        exp: iat + lifetimeS,
        jti: `${algorithm} ${++made}`,
      };
      const text = `${header}.${encode(claims)}`;
      const key = { key: privateKey, dsaEncoding: 'ieee-p1363' } as const;
      return `${text}.${sign('sha256', Buffer.from(text), key).toString('base64url')}`;
    },
  };
}
