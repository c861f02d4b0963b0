import { type FederatedAlgorithm, federatedAlgorithms, isFederatedAlgorithm } from '../model/federation.ts';
import { limits } from '../model/limits.ts';
import { decodeBase64url, readBase64url } from './base64url.ts';
import { type JsonObject, readJsonObject } from './json-object.ts';

/** A token of another issuer with a valid envelope. Untrusted until its signature is verified. */
export interface OpenForeignToken {
  /** The whole token as received. A bearer credential: never logged. */
  readonly token: string;
  readonly algorithm: FederatedAlgorithm;
  /** Null: the token names none. */
  readonly kid: string | null;
  /** The signed part: header and payload as in the token. ASCII. */
  readonly signedText: string;
  readonly signature: Uint8Array;
  readonly payload: JsonObject;
}

/** Of RSA with 4096 bits. */
const signatureBytesMax = 512;

/**
 * Types of tokens that are passports: none, JWT, access tokens (RFC 9068) and JWT-SVIDs. RFC 8725 §3.11:
 * others were signed for another use, such as `logout+jwt`, `secevent+jwt` or `dpop+jwt`.
 */
const passportTypes: ReadonlySet<string> = new Set(['jwt', 'at+jwt', 'jose']);
/** RFC 8417 §2.2. */
const securityEventType = 'secevent+jwt';
/** Of an Identity Assertion JWT Authorization Grant (draft-ietf-oauth-identity-assertion-authz-grant). */
const identityAssertionType = 'oauth-id-jag+jwt';

/**
 * Takes a compact JWS of another issuer apart. A text says why it is `passport_malformed`, and quotes nothing
 * of it: too long, not three parts of canonical base64url, `alg` none, HMAC or unknown, a type of other use,
 * `crit` (no extension is known), a header that brings its own key or says where to get it (`jwk`, `jku`,
 * `x5u`), JSON that is read in two ways.
 */
export const openForeignToken = (token: string): OpenForeignToken | string => open(token, passportTypes);

/** The same of a security event token (RFC 8417), which is no passport. */
export const openSecurityEvent = (token: string): OpenForeignToken | string =>
  open(token, new Set([securityEventType]));

/** The same of an identity assertion, with which a client gets an access token, and which is no passport. */
export const openIdentityAssertion = (token: string): OpenForeignToken | string =>
  open(token, new Set([identityAssertionType]));

function open(token: string, types: ReadonlySet<string>): OpenForeignToken | string {
  if (token.length > limits.tokenBytesMax) return `it is longer than ${limits.tokenBytesMax} characters`;
  const headerEnd = token.indexOf('.');
  const payloadEnd = token.indexOf('.', headerEnd + 1);
  if (headerEnd < 0 || payloadEnd < 0) return 'it has not three parts with dots between them';
  const header = readHeader(token.slice(0, headerEnd), types);
  if (typeof header === 'string') return header;
  const signature = decodeBase64url(token.slice(payloadEnd + 1));
  if (signature === null || signature.length > signatureBytesMax)
    return 'its signature is too long, or no base64url';
  const payload = decodeJson(token.slice(headerEnd + 1, payloadEnd));
  if (payload === null) return `its payload is no ${safeObject}`;
  return { token, ...header, signedText: token.slice(0, payloadEnd), signature, payload };
}

const refusedMembers = ['crit', 'jwk', 'jku', 'x5u'] as const;
const safeObject = 'JSON object in base64url that all readers read alike';

function readHeader(
  part: string,
  types: ReadonlySet<string>,
): Pick<OpenForeignToken, 'algorithm' | 'kid'> | string {
  const header = decodeJson(part);
  if (header === null) return `its header is no ${safeObject}`;
  const refused = refusedMembers.find((name) => Object.hasOwn(header, name));
  if (refused !== undefined) return `its header has ${refused}`;
  const { alg, typ = 'JWT', kid = null } = header;
  const algorithm = alg === 'Ed25519' ? 'EdDSA' : alg;
  if (!isFederatedAlgorithm(algorithm)) return `alg must be one of ${federatedAlgorithms.join(', ')}`;
  if (typeof typ !== 'string' || !types.has(typ.toLowerCase().replace(/^application\//, '')))
    return `typ must be one of ${[...types].join(', ')}`;
  if (kid !== null && (typeof kid !== 'string' || kid.length > limits.foreignKidCharsMax))
    return 'kid is no text, or too long';
  return { algorithm, kid };
}

const decodeJson = (part: string): JsonObject | null => {
  const bytes = readBase64url(part);
  return bytes === null ? null : readJsonObject(bytes);
};
