import { createServer, type RequestListener } from 'node:http';
import * as jose from 'jose';
import { listening } from '../base/listening.ts';

/** An issuer of others on loopback, made with `jose`: its metadata, its keys, its tokens. */
export interface ForeignProvider {
  /** Its `iss`, where it publishes its metadata. */
  readonly issuer: string;
  /** Requests for keys so far. */
  readonly keyRequests: number;
  /** Makes a key that is published, and signs from now on. */
  addKey(alg?: string, kid?: string, published?: object): Promise<void>;
  /** The keys that are published, as they are. */
  keys: object[];
  /** In place of its usual answers; null: these. */
  answer: RequestListener | null;
  /** A token of `planner` for the audience `gate`, valid for an hour, by the newest key. */
  sign(claims?: Record<string, unknown>, header?: object): Promise<string>;
  /** Signs these claims alone. */
  signExactly(claims: Record<string, unknown>, header?: object): Promise<string>;
  close(): Promise<void>;
}

export async function startForeignProvider(): Promise<ForeignProvider> {
  let signing: { readonly key: jose.CryptoKey; readonly alg: string; readonly kid: string } | null = null;
  let made = 0;
  let keyRequests = 0;
  const server = createServer((request, response) => {
    if (request.url === '/keys') keyRequests++;
    if (provider.answer !== null) return provider.answer(request, response);
    const body = request.url === '/keys' ? { keys: provider.keys } : { issuer, jwks_uri: `${issuer}/keys` };
    response.setHeader('content-type', 'application/json').end(JSON.stringify(body));
  });
  const { origin: issuer, close } = await listening(server);
  const signExactly: ForeignProvider['signExactly'] = async (claims, header = {}) => {
    if (signing === null) throw new Error('a provider has a key before it signs');
    return new jose.SignJWT(claims as jose.JWTPayload)
      .setProtectedHeader({ alg: signing.alg, kid: signing.kid, typ: 'JWT', ...header })
      .sign(signing.key);
  };
  const provider: ForeignProvider = {
    issuer,
    get keyRequests() {
      return keyRequests;
    },
    keys: [],
    answer: null,
    addKey: async (alg = 'RS256', kid = `key-${++made}`, published = {}) => {
      const pair = await jose.generateKeyPair(alg, { extractable: true });
      signing = { key: pair.privateKey, alg, kid };
      provider.keys.push({ ...(await jose.exportJWK(pair.publicKey)), alg, kid, use: 'sig', ...published });
    },
    sign: (claims = {}, header = {}) => {
      const nowS = Math.floor(Date.now() / 1_000);
      return signExactly(
        { iss: issuer, sub: 'planner', aud: 'gate', iat: nowS, exp: nowS + 3_600, ...claims },
        header,
      );
    },
    signExactly,
    close,
  };
  return provider;
}

/** An issuer of others whose keys are pasted, and events that it signs. */
export async function pastedProvider() {
  const { publicKey, privateKey } = await jose.generateKeyPair('EdDSA');
  const issuer = 'https://pasted.example';
  const key = { ...(await jose.exportJWK(publicKey)), alg: 'EdDSA', kid: 'pasted' };
  return {
    federation: { type: 'jwks', issuer, jwks: { keys: [key] }, audiences: ['gate'] },
    /** A security event token of a type that has no effect. */
    event: () =>
      new jose.SignJWT({ events: { 'https://example.com/nothing': {} } })
        .setProtectedHeader({ alg: 'EdDSA', kid: 'pasted', typ: 'secevent+jwt' })
        .setIssuer(issuer)
        .setAudience('gate')
        .setJti(crypto.randomUUID())
        .setIssuedAt()
        .sign(privateKey),
  };
}
