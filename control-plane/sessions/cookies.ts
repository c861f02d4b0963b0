import type { IncomingHttpHeaders } from 'node:http';
import { secondMs } from '../../shared/model/time.ts';
import { trimBlanks } from '../../shared/wire/api/request-headers.ts';
import { sessionsLimits } from './limits.ts';

/**
 * `__Host-`: a browser takes such a cookie only from us over https (or on localhost), with `Path=/` and
 * without `Domain`, so that no other host of the same site can plant one.
 */
export const sessionCookie = '__Host-agent_trust_session';
/** Says that this browser has logged in before; see login-attempts.ts. Opens nothing. */
export const deviceCookie = '__Host-agent_trust_device';

const attributes = 'Path=/; Secure; HttpOnly; SameSite=Strict';

/** Without an end of its own: the session has one, and a browser that closes forgets the cookie. */
export const renderSessionCookie = (token: string): string => `${sessionCookie}=${token}; ${attributes}`;
export const expiredSessionCookie = `${sessionCookie}=; ${attributes}; Max-Age=0`;
export const renderDeviceCookie = (value: string): string =>
  `${deviceCookie}=${value}; ${attributes}; Max-Age=${sessionsLimits.deviceCookieMs / secondMs}`;

/** The value of a cookie. Null: absent, or ambiguous because it was sent more than once. */
export function readCookie({ cookie }: IncomingHttpHeaders, name: string): string | null {
  const values = (cookie ?? '').split(';').flatMap((pair) => {
    const at = pair.indexOf('=');
    return at >= 0 && trimBlanks(pair.slice(0, at)) === name ? [trimBlanks(pair.slice(at + 1))] : [];
  });
  return values.length === 1 ? (values[0] ?? null) : null;
}
