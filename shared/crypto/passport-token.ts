import { limits } from '../model/limits.ts';
import { decodeBase64url, encodeBase64url, readBase64url } from './base64url.ts';
import type { Signer } from './ed25519.ts';
import { signatureBytes } from './ed25519-checks.ts';
import { type JsonObject, readJsonObject } from './json-object.ts';

/**
 * A token whose envelope is in order. Nothing in it is believed yet: the signature is still to be verified.
 */
export interface OpenToken {
  /** The whole token, as it came. A bearer credential: never logged. */
  readonly token: string;
  /** Names the key; whether such a key exists is for the keyset to say. */
  readonly kid: string;
  /** What the signature is over: header and payload as they stand in the token. ASCII. */
  readonly signedText: string;
  /** The same as bytes, made anew each time that it is asked for. */
  readonly signingInput: Uint8Array;
  /** 64 bytes. */
  readonly signature: Uint8Array;
  readonly payload: JsonObject;
}

/**
 * RFC 8725 §3.11: the type keeps a passport from passing for another kind of token, and the other way round.
 */
const tokenType = 'passport+jwt';

/**
 * Takes a compact JWS (RFC 7515 §7.1) apart. Null is `passport_malformed`: too long, not three parts of
 * canonical unpadded base64url, a header that is not exactly ours, or a payload that is not a JSON object in
 * UTF-8.
 *
 * Only `alg`, `typ` and `kid` of the header are read. A key or an address of keys in it (`jwk`, `jku`, `x5u`)
 * is never looked at, and a header with `crit` is refused, since no extension is understood here (RFC 7515
 * §4.1.11).
 */
export function openPassportToken(token: string): OpenToken | null {
  // Everything that gets past the parts' alphabet is ASCII, so that characters are bytes.
  if (token.length > limits.tokenBytesMax) return null;
  const headerEnd = token.indexOf('.');
  const payloadEnd = token.indexOf('.', headerEnd + 1);
  if (headerEnd < 0 || payloadEnd < 0) return null;

  const kid = kidOf(token, headerEnd);
  if (kid === null) return null;
  const signature = decodeBase64url(token.slice(payloadEnd + 1));
  if (signature === null || signature.length !== signatureBytes) return null;
  const payload = decodeJson(token.slice(headerEnd + 1, payloadEnd));
  if (payload === null) return null;
  return new Opened({ token, kid, signedText: token.slice(0, payloadEnd), signature, payload });
}

/** Whoever has the signature checked elsewhere takes the text, and bytes of it would be garbage here. */
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
 * Signs the claims as a passport token. The caller sees to it that the result is at most
 * `limits.tokenBytesMax` long.
 */
export function signPassportToken(
  payload: object,
  key: { readonly kid: string; readonly signer: Signer },
): string {
  const header = encodeJson({ alg: 'EdDSA', typ: tokenType, kid: key.kid });
  const signingInput = `${header}.${encodeJson(payload)}`;
  return `${signingInput}.${encodeBase64url(key.signer.sign(asciiBytes(signingInput)))}`;
}

/** The header that was read last, and what came of it. */
let lastHeader: { readonly text: string; readonly kid: string } | null = null;

/**
 * All tokens of a key have the same header, character by character, and a service signs with one key for
 * months: what was read of the last good header holds for the next one that is the same text. Only
 * `readHeader` says what a header means.
 */
function kidOf(token: string, headerEnd: number): string | null {
  if (lastHeader !== null && lastHeader.text.length === headerEnd && token.startsWith(lastHeader.text))
    return lastHeader.kid;
  const text = token.slice(0, headerEnd);
  const kid = readHeader(text);
  if (kid !== null) lastHeader = { text, kid };
  return kid;
}

/**
 * The `kid` of a header that is ours; null for any other. `Ed25519` is the name that RFC 9864 gives to the
 * algorithm.
 */
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
