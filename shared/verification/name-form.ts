import { isLabel } from '../model/plain-text.ts';

/** RFC 3986 §3: a scheme and an authority. `system:serviceaccount:…` and `auth0|…` are names of no form. */
const uriStart = /^([a-z][a-z0-9+.-]*):\/\//i;
/** SPIFFE-ID §2: a trust domain, and segments that are neither empty nor dots. Nothing is percent-encoded. */
const spiffeId = /^spiffe:\/\/[a-z0-9._-]+(?:\/(?!\.{1,2}(?:\/|$))[a-zA-Z0-9._-]+)*$/;
/** The characters of RFC 3986 §2, with whole percent-encodings. */
const uriText = /^(?:[\w.~:/?#[\]@!$&'()*+,;=-]|%[0-9a-f]{2})+$/i;
/** What normalisation changes (RFC 3986 §6.2.2): dots as segments, and encoded letters, digits, dots. */
const changesWhenNormal = /\/\.{1,2}(?:[/?#]|$)|%(?:2[def]|3\d|4[1-9a-f]|5[\dacf]|6[1-9a-f]|7[\dae])/i;

/**
 * Whether a value of a token is a name here: a text that people can read, and in the form of its
 * specification where it is a SPIFFE ID or another URI. `spiffe://x/agents/../admin` would fit the pattern
 * `spiffe://x/agents/*`, and be another name to whoever normalises it (contract §4).
 */
export function isNameOf(value: unknown, charsMax: number): value is string {
  if (!isLabel(value, charsMax)) return false;
  const scheme = uriStart.exec(value)?.[1]?.toLowerCase();
  if (scheme === undefined) return true;
  if (scheme === 'spiffe') return spiffeId.test(value);
  return uriText.test(value) && !changesWhenNormal.test(value);
}
