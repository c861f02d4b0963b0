import { createServer } from 'node:http';
import { exportJWK, generateKeyPair, SignJWT } from 'jose';
import { listening } from '../base/listening.ts';

type Claims = Readonly<Record<string, unknown>>;

/** How one answer of the provider differs from a good one. */
export interface Lie {
  /** Over the claims of a good ID token; undefined removes one. */
  readonly claims?: Claims;
  /** Signed by a key that the provider does not publish, or by nobody. */
  readonly signedBy?: 'stranger' | 'nobody';
  /** Over its metadata. */
  readonly metadata?: Claims;
  /** What its UserInfo endpoint answers; undefined: the subject alone. */
  readonly userInfo?: Claims;
  /** In place of the answer of the token endpoint. */
  readonly tokenAnswer?: { readonly status: number; readonly body: string };
}

/** A provider that answers the token endpoint with whatever a test wants, without asking anybody. */
export async function startHostileProvider() {
  const [own, stranger] = await Promise.all([generateKeyPair('ES256'), generateKeyPair('ES256')]);
  const keys = [{ ...(await exportJWK(own.publicKey)), kid: 'own', use: 'sig', alg: 'ES256' }];
  const server = createServer();
  const { origin: issuer, close } = await listening(server);
  const settings = { issuer, clientId: 'agent-trust', clientSecret: 'secret', name: 'Hostile' };
  let current: { readonly nonce: string; readonly lie: Lie } = { nonce: '', lie: {} };
  const sign = async ({ claims: lied, signedBy }: Lie): Promise<string> => {
    const now = Math.floor(Date.now() / 1_000);
    const claims = {
      iss: issuer,
      sub: 'hostile-subject',
      aud: settings.clientId,
      iat: now,
      exp: now + 60,
      nonce: current.nonce,
      ...lied,
    };
    if (signedBy === 'nobody') {
      const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
      return `${part({ alg: 'none' })}.${part(claims)}.`;
    }
    const { privateKey } = signedBy === 'stranger' ? stranger : own;
    return new SignJWT(claims).setProtectedHeader({ alg: 'ES256', kid: 'own' }).sign(privateKey);
  };
  const bodies: Readonly<Record<string, () => Promise<unknown> | unknown>> = {
    '/.well-known/openid-configuration': () => ({
      issuer,
      authorization_endpoint: `${issuer}/authorize`,
      token_endpoint: `${issuer}/token`,
      jwks_uri: `${issuer}/keys`,
      id_token_signing_alg_values_supported: ['ES256', 'none'],
      userinfo_endpoint: `${issuer}/userinfo`,
      ...current.lie.metadata,
    }),
    '/userinfo': () => current.lie.userInfo ?? { sub: 'hostile-subject' },
    // Twice, as a provider may by mistake.
    '/keys': () => ({ keys: [...keys, ...keys.map((key) => ({ x5t: 'AAAA', ...key }))] }),
    '/token': async () => ({
      access_token: 'access',
      token_type: 'bearer',
      id_token: await sign(current.lie),
    }),
  };
  server.on('request', async (request, response) => {
    const { tokenAnswer } = current.lie;
    if (request.url === '/token' && tokenAnswer !== undefined) {
      response.writeHead(tokenAnswer.status, { 'content-type': 'application/json' });
      return response.end(tokenAnswer.body);
    }
    const body = await bodies[request.url ?? '']?.();
    response.writeHead(body === undefined ? 404 : 200, { 'content-type': 'application/json' });
    return response.end(JSON.stringify(body ?? {}));
  });
  return {
    settings,
    /** What it says to the next login that has this nonce. */
    lie: (nonce: string, lie: Lie): void => {
      current = { nonce, lie };
    },
    close,
  };
}
