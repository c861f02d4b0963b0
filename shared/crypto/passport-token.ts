import { limits } from '../model/limits.ts';
import { decodeBase64url, encodeBase64url, readBase64url } from './base64url.ts';
import type { Signer } from './ed25519.ts';
import { signatureBytes } from './ed25519-checks.ts';
import { type JsonObject, readJsonObject } from './json-object.ts';

/** A token with a valid envelope. Untrusted until its signature is verified. */
export interface OpenToken {
  /** The whole token as received. A bearer credential: never logged. */
  readonly token: string;
  /** Names the key, which need not exist. */
  readonly kid: string;
  /** The signed part: header and payload as in the token. ASCII. */
  readonly signedText: string;
  /** The same as bytes, a new array at each access. */
  readonly signingInput: Uint8Array;
  /** 64 bytes. */
  readonly signature: Uint8Array;
  readonly payload: JsonObject;
}

/** RFC 8725 §3.11: the type keeps passports and other kinds of tokens from passing for each other. */
const tokenType = 'passport+jwt';

/**
 * Takes a compact JWS (RFC 7515 §7.1) apart. Null is `passport_malformed`: too long, not three parts of
 * canonical unpadded base64url, a header that is not exactly ours, or a payload that is not a JSON object in
 * UTF-8.
 *
 * Only `alg`, `typ` and `kid` of the header are read. A key or an address of keys in it (`jwk`, `jku`, `x5u`)
 * is ignored, and a header with `crit` is refused, because no extension is supported (RFC 7515 §4.1.11).
 */
export function openPassportToken(token: string): OpenToken | null {
  // The alphabet of the parts is ASCII, so characters are bytes.
  if (token.length > limits.tokenBytesMax) return null;
  const headerEnd = token.indexOf('.');
  const payloadEnd = token.indexOf('.', headerEnd + 1);
  if (headerEnd < 0 || payloadEnd < 0) return null;

  const kid = readHeader(token.slice(0, headerEnd));
  if (kid === null) return null;
  const signature = decodeBase64url(token.slice(payloadEnd + 1));
  if (signature === null || signature.length !== signatureBytes) return null;
  const payload = decodeJson(token.slice(headerEnd + 1, payloadEnd));
  if (payload === null) return null;
  return new Opened({ token, kid, signedText: token.slice(0, payloadEnd), signature, payload });
}

/** A caller that verifies elsewhere needs only the text, so bytes are made on demand. */
class Opened implements OpenToken {
  readonly token: string;
  readonly kid: string;
  readonly signedText: string;
  readonly signature: Uint8Array;
  readonly payload: JsonObject;

  constructor({ token, kid, signedText, signature, payload }: Omit<OpenToken, 'signingInput'>) {
    this.token = token;
    this.kid = kid;
    this.signedText = signedText;
    this.signature = signature;
    this.payload = payload;
  }

  get signingInput(): Uint8Array {
    return asciiBytes(this.signedText);
  }
}

/**
 * Signs the claims as a passport token. The caller ensures that the result has at most `limits.tokenBytesMax`
 * bytes.
 */
export function signPassportToken(
  payload: object,
  key: { readonly kid: string; readonly signer: Signer },
): string {
  const header = encodeJson({ alg: 'EdDSA', typ: tokenType, kid: key.kid });
  const signingInput = `${header}.${encodeJson(payload)}`;
  return `${signingInput}.${encodeBase64url(key.signer.sign(asciiBytes(signingInput)))}`;
}

/** The `kid` of a header of ours; null for any other. `Ed25519` is the name of the algorithm in RFC 9864. */
function readHeader(part: string): string | null {
  const header = decodeJson(part);
  if (header === null) return null;
  const { alg, typ, kid } = header;
  if (alg !== 'EdDSA' && alg !== 'Ed25519') return null;
  if (typ !== tokenType || typeof kid !== 'string' || Object.hasOwn(header, 'crit')) return null;
  return kid;
}

const decodeJson = (part: string): JsonObject | null => {
  const bytes = readBase64url(part);
  return bytes === null ? null : readJsonObject(bytes);
};

const encodeJson = (value: object): string => encodeBase64url(Buffer.from(JSON.stringify(value), 'utf8'));

const asciiBytes = (text: string): Uint8Array => Buffer.from(text, 'latin1');
