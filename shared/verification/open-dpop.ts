import { agentKeyOfJwk, parseAgentKey } from '../crypto/agent-key.ts';
import { decodeBase64url, encodeBase64url } from '../crypto/base64url.ts';
import { type JsonObject, readJsonObject } from '../crypto/json-object.ts';
import { proofLimits } from '../model/proof.ts';
import { isUnixMillis, secondMs, type UnixMillis } from '../model/time.ts';
import { parseWebUrl } from '../wire/api/domain.ts';
import { isNonce, type ProofTerms, type ProvenPassport, type SeenRequest } from './proof-parts.ts';

/**
 * A DPoP proof (RFC 9449 §4.3) of this request, made for this passport. Null: it is none, or of another
 * method, URL, token, nonce or key. `jwk` must be the key of the passport, so that it proves nothing by
 * itself.
 */
export function openDpop(
  dpop: unknown,
  seen: SeenRequest,
  { tokenHash, key }: ProvenPassport,
): ProofTerms | null {
  if (typeof dpop !== 'string' || dpop.length > proofLimits.fieldCharsMax) return null;
  const [head, body, mark, ...more] = dpop.split('.');
  if (head === undefined || body === undefined || mark === undefined || more.length > 0) return null;
  const header = decodeJson(head);
  const claims = decodeJson(body);
  const signature = decodeBase64url(mark);
  if (header === null || claims === null || signature?.length !== 64) return null;

  const isAlgorithm =
    header['alg'] === key.algorithm || (key.algorithm === 'EdDSA' && header['alg'] === 'Ed25519');
  if (header['typ'] !== 'dpop+jwt' || !isAlgorithm || Object.hasOwn(header, 'crit')) return null;
  const shown = agentKeyOfJwk(header['jwk']);
  if (shown === null || parseAgentKey(shown)?.thumbprint !== key.thumbprint) return null;

  const { jti, iat, htm, htu, ath, nonce = null } = claims;
  if (!isNonce(jti) || htm !== seen.method || !isSameTarget(htu, seen.url)) return null;
  if (ath !== encodeBase64url(Buffer.from(tokenHash, 'hex'))) return null;
  if (seen.nonce !== null && nonce !== seen.nonce) return null;
  const issuedAtMs = readTime(iat);
  return issuedAtMs === null
    ? null
    : {
        signedText: `${head}.${body}`,
        signature,
        startsAtMs: issuedAtMs,
        endsAtMs: issuedAtMs,
        nonce: jti,
      };
}

const decodeJson = (part: string): JsonObject | null => {
  const bytes = decodeBase64url(part);
  return bytes === null ? null : readJsonObject(bytes);
};

/** RFC 7519 NumericDate, which need not be whole. */
function readTime(value: unknown): UnixMillis | null {
  const timeMs = typeof value === 'number' ? Math.floor(value * secondMs) : Number.NaN;
  return isUnixMillis(timeMs) ? timeMs : null;
}

/** Without query and fragment, and after normalising both (RFC 9449 §4.3, RFC 3986 §6.2.2 and §6.2.3). */
function isSameTarget(htu: unknown, url: URL): boolean {
  if (typeof htu !== 'string' || htu.length > proofLimits.fieldCharsMax) return false;
  const target = parseWebUrl(htu);
  return (
    target !== null &&
    target.protocol === url.protocol &&
    target.host === url.host &&
    normalPath(target.pathname) === normalPath(url.pathname)
  );
}

/** What needs no encoding is not encoded; hex digits are capitals. */
const normalPath = (path: string): string =>
  path.includes('%')
    ? path.replace(/%[0-9a-f]{2}/gi, (encoded) => {
        const char = String.fromCharCode(Number.parseInt(encoded.slice(1), 16));
        return /[A-Za-z0-9._~-]/.test(char) ? char : encoded.toUpperCase();
      })
    : path;
