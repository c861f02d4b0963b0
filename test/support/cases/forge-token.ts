import { createHmac } from 'node:crypto';
import { encodeBase64url } from '../../../shared/crypto/base64url.ts';
import { chooseEd25519 } from '../../../shared/crypto/choose-ed25519.ts';
import { thumbprint } from '../../../shared/crypto/keyset.ts';
import { must } from '../../../shared/errors/assert.ts';

/**
 * The parts of a good token. `publicKey`: of the service's key that signed it, which everybody can read in
 * its JWKS.
 */
interface Genuine {
  readonly token: string;
  readonly header: Readonly<Record<string, unknown>>;
  readonly payload: Readonly<Record<string, unknown>>;
  /** As they stand in the token. */
  readonly parts: { readonly header: string; readonly payload: string; readonly signature: string };
  readonly publicKey: Uint8Array;
}

const encodeJson = (value: unknown): string => encodeBase64url(Buffer.from(JSON.stringify(value)));
const decodeJson = (part: string): Readonly<Record<string, unknown>> =>
  JSON.parse(Buffer.from(part, 'base64url').toString()) as Readonly<Record<string, unknown>>;

/** Another service, with a key pair of its own. */
const stranger = chooseEd25519().signer(new Uint8Array(32).fill(7));

/**
 * Everything but the header and the payload is right: what the stranger signs verifies with the stranger's
 * key.
 */
function signedByStranger(header: object, payload: object): string {
  const input = `${encodeJson(header)}.${encodeJson(payload)}`;
  return `${input}.${encodeBase64url(stranger.sign(Buffer.from(input)))}`;
}

const withHeader = ({ header, parts }: Genuine, change: Readonly<Record<string, unknown>>): string =>
  `${encodeJson({ ...header, ...change })}.${parts.payload}.${parts.signature}`;

const base64url = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
const shifted = (char: string, by: number): string =>
  base64url.charAt((base64url.indexOf(char) + by) % base64url.length);

const forgeries = {
  empty: () => '',
  'no token at all': () => 'let me in',
  truncated: ({ token }) => token.slice(0, -10),
  'without its signature': ({ parts }) => `${parts.header}.${parts.payload}.`,
  'without its last part': ({ parts }) => `${parts.header}.${parts.payload}`,
  'a fourth part': ({ token }) => `${token}.AAAA`,
  'a trailing byte': ({ token }) => `${token}A`,
  'a trailing newline': ({ token }) => `${token}\n`,
  padded: ({ token }) => `${token}==`,
  // The last of 86 characters holds 2 bits of the signature and 4 of nothing.
  'spelt in another way': ({ token }) => token.slice(0, -1) + shifted(token.slice(-1), 1),
  'alg none': ({ header, parts }) => `${encodeJson({ ...header, alg: 'none' })}.${parts.payload}.`,
  'alg none with a signature': (genuine) => withHeader(genuine, { alg: 'none' }),
  'HS256 with the public key as secret': ({ header, parts, publicKey }) => {
    const input = `${encodeJson({ ...header, alg: 'HS256' })}.${parts.payload}`;
    return `${input}.${createHmac('sha256', publicKey).update(input).digest('base64url')}`;
  },
  'alg ES256': (genuine) => withHeader(genuine, { alg: 'ES256' }),
  'another typ': (genuine) => withHeader(genuine, { typ: 'JWT' }),
  'no kid': (genuine) => withHeader(genuine, { kid: undefined }),
  'a critical extension': (genuine) => withHeader(genuine, { crit: ['b64'], b64: false }),
  'a payload that is no object': ({ parts }) => `${parts.header}.${encodeJson([1])}.${parts.signature}`,
  'nine KiB long': ({ parts, payload }) =>
    `${parts.header}.${encodeJson({ ...payload, agent_name: 'a'.repeat(9 * 1024) })}.${parts.signature}`,
  'an unknown kid': (genuine) => withHeader(genuine, { kid: thumbprint(stranger.publicKey) }),
  'signed by another service': ({ header, payload }) =>
    signedByStranger({ ...header, kid: thumbprint(stranger.publicKey) }, payload),
  'signed by another service in our name': ({ header, payload }) => signedByStranger(header, payload),
  'with its own key in the header': ({ header, payload }) =>
    signedByStranger(
      { ...header, jwk: { kty: 'OKP', crv: 'Ed25519', x: encodeBase64url(stranger.publicKey) } },
      payload,
    ),
  'one more permission': ({ parts, payload }) =>
    `${parts.header}.${encodeJson({ ...payload, permissions: ['admin:everything'] })}.${parts.signature}`,
  'one bit of the signature': ({ parts }) =>
    `${parts.header}.${parts.payload}.${shifted(parts.signature.charAt(0), 1)}${parts.signature.slice(1)}`,
  'a signature of zeros': ({ parts }) => `${parts.header}.${parts.payload}.${'A'.repeat(86)}`,
} as const satisfies Readonly<Record<string, (genuine: Genuine) => string>>;

export type Forgery = keyof typeof forgeries;

/** Does to a genuine token what the name says. */
export function forgeToken(how: Forgery, token: string, publicKey: Uint8Array): string {
  const [header, payload, signature] = token.split('.').map((part) => must(part, 'a token has three parts'));
  const parts = {
    header: must(header, 'a token has a header'),
    payload: must(payload, 'a token has a payload'),
    signature: must(signature, 'a token has a signature'),
  };
  return forgeries[how]({
    token,
    header: decodeJson(parts.header),
    payload: decodeJson(parts.payload),
    parts,
    publicKey,
  });
}
