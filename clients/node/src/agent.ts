import {
  createHash,
  createPrivateKey,
  createPublicKey,
  type KeyObject,
  randomBytes,
  sign,
} from 'node:crypto';

/**
 * The agent's private key: as the service answered it (`ed25519_private:…`), or a private JWK or KeyObject of
 * Ed25519 or P-256. It stays in this process.
 */
export type AgentPrivateKey = string | KeyObject | Readonly<Record<string, unknown>>;

/** `httpsig`: RFC 9421 in the profile of Web Bot Auth, which covers the body too. `dpop`: RFC 9449. */
export type ProofKind = 'httpsig' | 'dpop';

export interface AgentSignerOptions {
  /** Default `httpsig`. */
  readonly proof?: ProofKind;
  /** Of a signature, in seconds: 1 to 300. Default 60. */
  readonly lifetimeS?: number;
  /** Web Bot Auth: the address of your key directory, sent as `Signature-Agent` and signed. */
  readonly signatureAgent?: string;
}

/** A request that is about to be sent. */
export interface UnsignedRequest {
  readonly method: string;
  /** Absolute, with path and query as they are sent: `fetch` sends those of `new URL(url).href`. */
  readonly url: string;
  /** The whole body, as it is sent. */
  readonly body?: Uint8Array | string | null;
  /** DPoP: what the server has demanded in `DPoP-Nonce`. */
  readonly nonce?: string;
  /** The request has an `Authorization` of its own: the passport goes into `X-Agent-Passport`. */
  readonly hasAuthorization?: boolean;
}

/** The headers that show the passport and prove that this agent holds its key. New ones for each request. */
export type AgentSigner = (request: UnsignedRequest) => Readonly<Record<string, string>>;

/**
 * Signs requests of any HTTP client. Throws TypeError for a key that is none of these, and for a passport
 * that was issued for another key.
 */
export function agentSigner(
  passport: string,
  privateKey: AgentPrivateKey,
  options: AgentSignerOptions = {},
): AgentSigner {
  const key = readKey(privateKey);
  const { proof = 'httpsig', lifetimeS = 60, signatureAgent } = options;
  if (!Number.isInteger(lifetimeS) || lifetimeS < 1 || lifetimeS > 300)
    throw new TypeError('lifetimeS must be 1 to 300 seconds');
  if (!isFor(passport, key)) throw new TypeError('the passport was issued for another key than this one');
  return (request) => {
    const shown: Readonly<Record<string, string>> = request.hasAuthorization
      ? { 'x-agent-passport': passport }
      : { authorization: `Passport ${passport}` };
    return proof === 'dpop'
      ? { ...shown, dpop: dpopOf(request, passport, key) }
      : signatureOf(request, shown, key, { lifetimeS, signatureAgent });
  };
}

export interface AgentFetchOptions extends AgentSignerOptions {
  /** Default: the global `fetch`. */
  readonly fetch?: typeof fetch;
}

/**
 * A `fetch` that shows the passport with each request and proves that this agent holds its key. It reads the
 * body whole, to sign it. A redirect is answered as it is unless `redirect` says otherwise: the proof is for
 * one URL, and the passport for one server.
 */
export function agentFetch(
  passport: string,
  privateKey: AgentPrivateKey,
  options: AgentFetchOptions = {},
): typeof fetch {
  const { fetch: send = fetch, ...signing } = options;
  const signer = agentSigner(passport, privateKey, signing);
  return async (input, init) => {
    const request = new Request(input, init);
    const body = request.body === null ? null : new Uint8Array(await request.arrayBuffer());
    const headers = new Headers(request.headers);
    const { method, signal } = request;
    // As it is sent: without a fragment, and without the question mark of an empty query.
    const { origin, pathname, search } = new URL(request.url);
    const url = origin + pathname + search;
    const signed = signer({ method, url, body, hasAuthorization: headers.has('authorization') });
    for (const [name, value] of Object.entries(signed)) headers.set(name, value);
    const redirect = init?.redirect ?? 'manual';
    return send(url, { ...init, method, headers, body, redirect, signal });
  };
}

interface Key {
  readonly privateKey: KeyObject;
  readonly jwk: Readonly<Record<string, string>>;
  readonly thumbprint: string;
  readonly isEd25519: boolean;
}

/** RFC 8410 §7: the wrapping of an Ed25519 seed. */
const pkcs8Prefix = Buffer.from('302e020100300506032b657004220420', 'hex');
const textPrefix = 'ed25519_private:';

function readKey(given: AgentPrivateKey): Key {
  const privateKey = importKey(given);
  const { kty = '', crv = '', x = '', y } = createPublicKey(privateKey).export({ format: 'jwk' });
  const isEd25519 = kty === 'OKP' && crv === 'Ed25519';
  if (!isEd25519 && (kty !== 'EC' || crv !== 'P-256' || y === undefined))
    throw new TypeError('an agent has a key of Ed25519 or P-256');
  // RFC 7638: these members in this order.
  const jwk = isEd25519 ? { crv, kty, x } : { crv, kty, x, y: y ?? '' };
  return {
    privateKey,
    jwk,
    isEd25519,
    thumbprint: digest('sha256', JSON.stringify(jwk)).toString('base64url'),
  };
}

function importKey(given: AgentPrivateKey): KeyObject {
  if (typeof given !== 'string') {
    return 'type' in given && given['type'] === 'private'
      ? (given as KeyObject)
      : createPrivateKey({ key: given as never, format: 'jwk' });
  }
  const seed = Buffer.from(given.slice(textPrefix.length), 'base64url');
  if (!given.startsWith(textPrefix) || seed.length !== 32)
    throw new TypeError(`a private key is ${textPrefix} and 32 bytes in base64url`);
  return createPrivateKey({ key: Buffer.concat([pkcs8Prefix, seed]), format: 'der', type: 'pkcs8' });
}

/** Whether the passport names this key. What it says is not verified here. */
function isFor(passport: string, { jwk }: Key): boolean {
  try {
    const claims = JSON.parse(Buffer.from(passport.split('.')[1] ?? '', 'base64url').toString('utf8'));
    const bound = claims.cnf?.jwk ?? {};
    return Object.entries(jwk).every(([name, value]) => bound[name] === value);
  } catch {
    return false;
  }
}

/** Path and query as they are written; what is beyond ASCII can be sent in one way alone. */
function sentTarget(url: string): string {
  const [, written = ''] = /^[^/]*\/\/[^/?#]*([^#]*)/.exec(url) ?? [];
  const target = written.replace(/[^\x21-\x7e]+/g, (chars) => encodeURIComponent(chars));
  return target.startsWith('/') ? target : `/${target}`;
}

const digest = (algorithm: 'sha256', data: string | Uint8Array): Buffer =>
  createHash(algorithm).update(data).digest();

const signed = ({ privateKey, isEd25519 }: Key, text: string): Buffer =>
  isEd25519
    ? sign(null, Buffer.from(text, 'ascii'), privateKey)
    : sign('sha256', Buffer.from(text, 'ascii'), { key: privateKey, dsaEncoding: 'ieee-p1363' });

const json = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');
const newNonce = (): string => randomBytes(16).toString('base64url');
const nowS = (): number => Math.floor(Date.now() / 1_000);

function dpopOf({ method, url, nonce }: UnsignedRequest, passport: string, key: Key): string {
  const target = new URL(url);
  const header = { typ: 'dpop+jwt', alg: key.isEd25519 ? 'EdDSA' : 'ES256', jwk: key.jwk };
  const claims = {
    jti: newNonce(),
    htm: method,
    htu: target.origin + target.pathname,
    iat: nowS(),
    ath: digest('sha256', passport).toString('base64url'),
    ...(nonce !== undefined && { nonce }),
  };
  const text = `${json(header)}.${json(claims)}`;
  return `${text}.${signed(key, text).toString('base64url')}`;
}

function signatureOf(
  { method, url, body }: UnsignedRequest,
  shown: Readonly<Record<string, string>>,
  key: Key,
  { lifetimeS, signatureAgent }: { readonly lifetimeS: number; readonly signatureAgent: string | undefined },
): Readonly<Record<string, string>> {
  const { protocol, host } = new URL(url);
  const isEmpty = body === undefined || body === null || body.length === 0;
  const headers: Readonly<Record<string, string>> = {
    ...shown,
    ...(signatureAgent !== undefined && { 'signature-agent': JSON.stringify(signatureAgent) }),
    ...(!isEmpty && { 'content-digest': `sha-256=:${digest('sha256', body).toString('base64')}:` }),
  };
  const parts: Readonly<Record<string, string>> = {
    '@method': method,
    '@authority': host,
    '@target-uri': `${protocol}//${host}${sentTarget(url)}`,
    ...headers,
  };
  const created = nowS();
  const names = Object.keys(parts).map((name) => `"${name}"`);
  const input =
    `(${names.join(' ')});created=${created};expires=${created + lifetimeS};nonce="${newNonce()}"` +
    `;keyid="${key.thumbprint}";alg="${key.isEd25519 ? 'ed25519' : 'ecdsa-p256-sha256'}";tag="web-bot-auth"`;
  const lines = Object.entries(parts).map(([name, value]) => `"${name}": ${value}`);
  const base = [...lines, `"@signature-params": ${input}`].join('\n');
  return {
    ...headers,
    'signature-input': `sig1=${input}`,
    signature: `sig1=:${signed(key, base).toString('base64')}:`,
  };
}
