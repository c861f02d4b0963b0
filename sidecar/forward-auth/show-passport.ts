/** The token that a request shows, or why there is not exactly one. */
export type ShownPassport =
  | { readonly kind: 'token'; readonly token: string }
  | { readonly kind: 'passport_missing' }
  | { readonly kind: 'passport_ambiguous' };

const scheme = /^passport(?: |$)/i;
const laterScheme = /,\s*passport /i;

/**
 * Reads `Authorization: Passport <token>` and `X-Agent-Passport` (contract §15). A header that was sent twice
 * comes as a list (RequestHead), and no token holds a comma.
 */
export function shownPassport(authorization: string, header: string): ShownPassport {
  const shown = new Set([header]);
  if (scheme.test(authorization)) shown.add(authorization.slice('passport'.length).trim());
  shown.delete('');
  const [token, another] = shown;
  if (another !== undefined || laterScheme.test(authorization)) return { kind: 'passport_ambiguous' };
  if (token === undefined) return { kind: 'passport_missing' };
  return /[\s,]/.test(token) ? { kind: 'passport_ambiguous' } : { kind: 'token', token };
}
