import { domainToUnicode } from 'node:url';
import { invalidRequest } from '../errors/api-error.ts';
import { parseHost } from './domain.ts';

/** RFC 5321 §4.5.3.1.3: the longest address that can be sent to. */
export const emailCharsMax = 254;

/** RFC 5322 `atext` and dots, and RFC 6531 for other scripts. No quoted strings: `"a"@x` is `a@x`. */
const localPart = /^[\p{L}\p{M}\p{N}!#$%&'*+/=?^_`{|}~.-]{1,64}$/u;
/** What a reader does not see, or sees in another place. */
const invisible = /[\p{Default_Ignorable_Code_Point}\p{Bidi_Control}\p{C}\p{Z}]/u;
/** The dot that an i has by itself: drawn in the same place. A capital one with a dot becomes this. */
const secondDot = /\p{Soft_Dotted}\p{M}*\u0307/u;
const ipv4 = /^\d+\.\d+\.\d+\.\d+$/;
/** As `parseHost` takes them, an address literal, a port and a trailing dot are of no email address. */
const mailDomain = /^[^:[\]]*[^:[\].]$/;

/** What is wrong with a text as an address. */
type EmailFault = 'no address' | 'not canonical';

/**
 * The one form in which an address is kept and compared: lower case, its domain as A-labels (IDNA). A text in
 * any other disguise is a fault rather than mapped: NFKC would make `kirk@` of a Kelvin sign's `kirk@`, and
 * IDNA drops what nobody sees, so two people who read two addresses would share one user.
 */
export function canonicalEmail(text: string): { readonly email: string } | { readonly fault: EmailFault } {
  if (text.length > emailCharsMax) return { fault: 'no address' };
  if (invisible.test(text) || text.normalize('NFKC') !== text) return { fault: 'not canonical' };
  // Some letters have their mark in one character as small ones alone: J and a caron, but ǰ.
  const lower = text.toLowerCase().normalize('NFKC');
  if (secondDot.test(lower)) return { fault: 'not canonical' };
  const at = lower.indexOf('@');
  const [local, domain] = [lower.slice(0, Math.max(at, 0)), lower.slice(at + 1)];
  if (at < 0 || !localPart.test(local) || !mailDomain.test(domain)) return { fault: 'no address' };
  const host = parseHost(domain);
  if (host === null || ipv4.test(host)) return { fault: 'no address' };
  if (domain !== host && domain !== domainToUnicode(host)) return { fault: 'not canonical' };
  const email = `${local}@${host}`;
  return email.length > emailCharsMax ? { fault: 'no address' } : { email };
}

const messages: Readonly<Record<EmailFault, string>> = {
  'no address': 'email must be an email address.',
  'not canonical':
    'email holds characters that cannot be seen or stand for others. Type the address with plain letters.',
};

/** In its canonical form. Throws `invalid_request`. */
export function parseEmail(text: string): string {
  const parsed = canonicalEmail(text);
  if ('fault' in parsed) throw invalidRequest('email', messages[parsed.fault]);
  return parsed.email;
}
