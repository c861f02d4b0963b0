import { type AgentKey, parseAgentKey } from '../crypto/agent-key.ts';
import { isJsonObject, type JsonObject } from '../crypto/json-object.ts';
import { type ProofScheme, proofLimits } from '../model/proof.ts';
import type { UnixMillis } from '../model/time.ts';
import { parseWebUrl } from '../wire/api/domain.ts';
import { openDpop } from './open-dpop.ts';
import { openHttpSignature } from './open-http-signature.ts';
import { isNonce, type ProvenPassport, type SeenRequest } from './proof-parts.ts';

/** A proof ready for its signature check with the key of its passport. */
export interface OpenedProof {
  readonly scheme: ProofScheme;
  readonly signedText: string;
  readonly signature: Uint8Array;
  readonly key: AgentKey;
  /** From when, and until when, it is accepted: leeway is in both. */
  readonly fromMs: UnixMillis;
  readonly untilMs: UnixMillis;
  /** Names this proof among all: what is kept to know it again. */
  readonly replayName: string;
}

/**
 * Takes `request.proof` apart and checks form, key and binding (contract §5). Null is `proof_invalid`, once
 * the signature has failed or before it. Never throws. Times and replays are not looked at: they depend on
 * when it is asked. `agentKey`: of the token's `cnf.jwk`.
 */
export function openProof(
  proof: unknown,
  passport: { readonly token: string; readonly tokenHash: string; readonly agentKey: string },
): OpenedProof | null {
  const key = parseAgentKey(passport.agentKey);
  if (key === null || !isJsonObject(proof)) return null;
  const seen = seenIn(proof);
  if (seen === null) return null;
  const proven: ProvenPassport = { ...passport, key };
  const dpop = proof['dpop'] ?? null;
  const isSigned = (proof['headers'] ?? null) !== null;
  // Two proofs, of which one may be bad: readers would disagree which one counts.
  if ((dpop === null) === !isSigned) return null;
  const scheme = dpop === null ? 'httpsig' : 'dpop';
  const terms = dpop === null ? openHttpSignature(seen, proven) : openDpop(dpop, seen, proven);
  if (terms === null) return null;
  const { signedText, signature, startsAtMs, endsAtMs, nonce } = terms;
  return {
    ...{ scheme, signedText, signature, key },
    fromMs: (startsAtMs - proofLimits.leewayAheadMs) as UnixMillis,
    untilMs: (endsAtMs + proofLimits.leewayBackMs) as UnixMillis,
    // A thumbprint has no blank in it.
    replayName: `${scheme} ${key.thumbprint} ${nonce}`,
  };
}

function seenIn(proof: JsonObject): SeenRequest | null {
  const { method, url: urlText } = proof;
  const nonce = proof['nonce'] ?? null;
  const contentDigest = proof['content_digest'] ?? null;
  if (typeof method !== 'string' || !/^[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,64}$/.test(method)) return null;
  if (typeof urlText !== 'string' || urlText.length > proofLimits.fieldCharsMax) return null;
  if ((nonce !== null && !isNonce(nonce)) || (contentDigest !== null && !isField(contentDigest))) return null;
  const read = readUrl(urlText);
  const headers = readHeaders(proof['headers'] ?? {});
  return read === null || headers === null ? null : { method, ...read, nonce, contentDigest, headers };
}

/** A segment that a reader may take for another place: the URL standard removes it, HTTP servers may not. */
const dotSegment = /\/(?:\.|%2e){1,2}(?:[/?]|$)/i;
const queryOn = /\?.*$/s;

/** Null: a URL that readers parse in different ways, or one with a fragment, which nobody sends. */
function readUrl(text: string): Pick<SeenRequest, 'url' | 'target'> | null {
  const url = text.includes('#') ? null : parseWebUrl(text);
  const sent = text.replace(/^[^/]*\/\/[^/?]*/, '').replace(beyondAscii, encoded);
  if (url === null || dotSegment.test(sent.replace(queryOn, ''))) return null;
  // RFC 9110 §4.2.3: an empty path is a slash.
  return { url, target: sent.startsWith('/') ? sent : `/${sent}` };
}

/** On the wire there is nothing else for it. */
const beyondAscii = /[^\x21-\x7e]+/g;
const encoded = (chars: string): string => encodeURIComponent(Buffer.from(chars).toString());

/** Printable ASCII: a line break in a value would make up lines of what is signed. */
const fieldValue = /^[\t\x20-\x7e]*$/;
const isField = (value: unknown): value is string =>
  typeof value === 'string' && value.length <= proofLimits.fieldCharsMax && fieldValue.test(value);

/** A header that came more than once may be a list; its values are one, as RFC 9110 §5.3 joins them. */
function readHeaders(given: unknown): ReadonlyMap<string, string> | null {
  if (!isJsonObject(given)) return null;
  const entries = Object.entries(given);
  if (entries.length > proofLimits.fieldsMax) return null;
  const headers = new Map<string, string>();
  for (const [name, value] of entries) {
    if (value === null) continue;
    const lower = name.toLowerCase();
    const text = Array.isArray(value) ? joined(value) : value;
    if (headers.has(lower) || !isField(text)) return null;
    headers.set(lower, text.trim());
  }
  return headers;
}

const joined = (lines: readonly unknown[]): string | null =>
  lines.length > 0 && lines.every(isField) ? lines.map((line) => line.trim()).join(', ') : null;
