import { trimBlanks } from '../../../shared/wire/api/request-headers.ts';

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
  if (laterScheme.test(authorization)) return { kind: 'passport_ambiguous' };
  const credentials = scheme.test(authorization) ? trimBlanks(authorization.slice('passport'.length)) : '';
  if (credentials !== '' && header !== '' && credentials !== header) return { kind: 'passport_ambiguous' };
  const token = header === '' ? credentials : header;
  if (token === '') return { kind: 'passport_missing' };
  return /[\s,]/.test(token) ? { kind: 'passport_ambiguous' } : { kind: 'token', token };
}
