import { domainToUnicode } from 'node:url';
import { invalidRequest } from '../../errors/api-error.ts';
import { parseHost } from './domain.ts';

/** RFC 5321 §4.5.3.1.3: the longest address that can be sent to. */
export const emailCharsMax = 254;

/** RFC 5322 `atext` and dots, and RFC 6531 for other scripts. No quoted strings: `"a"@x` is `a@x`. */
const localPart = /^[\p{L}\p{M}\p{N}!#$%&'*+/=?^_`{|}~.-]{1,64}$/u;
/** Characters that are invisible or displayed in another place. */
const invisible = /[\p{Default_Ignorable_Code_Point}\p{Bidi_Control}\p{C}\p{Z}]/u;
/** A second dot on an i or j, drawn over the first. Lower-casing a capital dotted I makes one. */
const secondDot = /\p{Soft_Dotted}\p{M}*\u0307/u;
const ipv4 = /^\d+\.\d+\.\d+\.\d+$/;
/** Excludes address literals, ports and trailing dots, which `parseHost` accepts. */
const mailDomain = /^[^:[\]]*[^:[\].]$/;

/** Why a text is no address. */
type EmailFault = 'no address' | 'not canonical';

/**
 * The form in which addresses are stored and compared: lower case, the domain as A-labels (IDNA). Other
 * look-alikes are refused, not mapped: NFKC turns a Kelvin sign into a k, and IDNA drops invisible
 * characters, so people with two different addresses would share one user.
 */
export function canonicalEmail(text: string): { readonly email: string } | { readonly fault: EmailFault } {
  if (text.length > emailCharsMax) return { fault: 'no address' };
  if (invisible.test(text) || text.normalize('NFKC') !== text) return { fault: 'not canonical' };
  // Lower case first: some letters compose with their mark in lower case only, such as ǰ.
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

/** The form in which owners and subjects are compared: an address in its own, and any other name as it is. */
export function canonicalName<Name extends string | null>(name: Name): Name {
  const parsed = name?.includes('@') ? canonicalEmail(name) : null;
  return parsed !== null && 'email' in parsed ? (parsed.email as Name) : name;
}
