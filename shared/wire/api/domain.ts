import { domainToASCII, domainToUnicode } from 'node:url';
import { limits } from '../../model/limits.ts';

/**
 * Characters that end or split a host name, and white space, which the URL standard silently drops from the
 * middle of one.
 */
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are among what is refused.
const notPartOfHost = /[\u0000-\u0020\u007f%/:?#@\\[\]<>^|]/;
const portAtEnd = /:\d{1,5}$/;
const bracketedIpv6 = /^\[[0-9A-Fa-f:.]+\]$/;
const canonicalName = /^[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*$/;
/**
 * Names that IDNA does not change: lower case, no `--` (the mark of an encoded label), and letters at the
 * end, which no address has. Most requests name such a host, and IDNA takes four times as long as this
 * pattern (bench row `micro`: parseHost).
 */
const usualName = /^(?:[a-z0-9]+(?:-[a-z0-9]+)*\.)+[a-z]+$/;
const labelCharsMax = 63;
/** An encoded label: IDNA's prefix, then Punycode. */
const encodedLabel = /^xn--/;
const nonAscii = /\P{ASCII}/u;
const ipv4 = /^\d+\.\d+\.\d+\.\d+$/;

/**
 * The canonical form of a host name, in which names are compared (contract §4): IDNA as in the URL standard
 * (UTS #46), lower case, without port and one trailing dot. IP addresses are hosts too: IPv6 in brackets,
 * IPv4 as four decimal numbers and in no other spelling (`127.1`, `0x7f.1`, `0177.0.0.1`), because readers
 * disagree about those. Null for everything else.
 */
export function parseHost(text: string): string | null {
  // Four times the limit leaves room for names that IDNA shortens, and bounds the work for others.
  if (text.length > 4 * limits.domainCharsMax) return null;
  // A usual name that is no longer than one label may be has no label that is too long.
  if (usualName.test(text)) return text.length <= labelCharsMax || isCanonical(text) ? text : null;
  const host = text.replace(portAtEnd, '');
  if (host.startsWith('[')) {
    const address = bracketedIpv6.test(host) ? domainToASCII(host) : '';
    return address === '' ? null : address;
  }
  if (notPartOfHost.test(host)) return null;
  const ascii = domainToASCII(host);
  // After IDNA, which makes an ASCII dot out of the full stops of other scripts.
  const name = ascii.endsWith('.') ? ascii.slice(0, -1) : ascii;
  if (ipv4.test(name) && name !== host) return null;
  return isCanonical(name) ? name : null;
}

const isCanonical = (name: string): boolean =>
  name.length <= limits.domainCharsMax &&
  canonicalName.test(name) &&
  (!name.includes('xn--') || name.split('.').every(isDecodable));

/**
 * Checked per label: Node 24 accepts ASCII names with an undecodable label, Node 20 and 22 refuse them.
 * Control planes and sidecars on different versions must agree on a name.
 */
function isDecodable(label: string): boolean {
  if (!encodedLabel.test(label)) return true;
  const decoded = domainToUnicode(label);
  return nonAscii.test(decoded) && !encodedLabel.test(decoded);
}

/**
 * The URL standard keeps ß, ς and the joiners; IDNA 2003 (Python) maps them to ss, σ and nothing:
 * `faß.example` and `fass.example` are two hosts. The capital ß joined them with Unicode 15.1.
 */
const readTwoWays = /[\u00df\u1e9e\u03c2\u200c\u200d]/;

/** The host of a call, as `parseHost` gives it; null also if readers disagree about it. */
export const parseCalledHost = (text: string): string | null =>
  readTwoWays.test(text) ? null : parseHost(text);

/**
 * An entry of `allowed_domains`: a host name, or `*.` and a host name for all names below it. Null for
 * everything else.
 */
export function parseDomainPattern(text: string): string | null {
  if (!text.startsWith('*.')) return parseHost(text);
  const parent = parseHost(text.slice(2));
  // Nothing lies below an address.
  return parent === null || parent.startsWith('[') || ipv4.test(parent) ? null : `*.${parent}`;
}

/** RFC 3986 without user information or percent-encoding in the host. An empty port is allowed (§3.2.3). */
const webUrl = /^https?:\/\/([a-z0-9._-]+|\[[0-9a-f:.]+\])(?::(\d{0,5}))?(?=[/?#]|$)/i;
/** Characters that some readers remove or correct, and the backslash, which some read as a slash. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are among what is refused.
const readDifferently = /[\s\\\u0000-\u001f\u007f-\u009f]/;
const portMax = 65_535;

/**
 * The host of an absolute http or https URL, as `parseHost` gives it. Null for everything else, including
 * URLs that RFC 3986 and the URL standard read differently: the host that is checked must be the host that is
 * called (contract §5). For `https://api.example.com\\@evil.example/` a browser calls the first host, curl
 * and Python the second.
 */
export function parseUrlHost(text: string): string | null {
  const [, host = '', port = '0'] = webUrl.exec(text) ?? [];
  if (host === '' || Number(port) > portMax || readDifferently.test(text)) return null;
  return parseHost(host);
}

/** An absolute http or https URL that all readers read alike (`parseUrlHost`). Null: anything else. */
export const parseWebUrl = (text: string): URL | null =>
  parseUrlHost(text) !== null && URL.canParse(text) ? new URL(text) : null;

/** Whether all readers read the URI alike: an http or https URL as above, or one of an app's own scheme. */
export const isReadAlike = (uri: unknown): boolean =>
  typeof uri === 'string' &&
  (/^https?:/i.test(uri)
    ? parseUrlHost(uri) !== null
    : /^[a-z][a-z0-9+.-]*:/i.test(uri) && !readDifferently.test(uri));

/** For error messages: the URLs that are accepted. */
export const webUrlRule =
  'an absolute http or https URL without a backslash, blank or user; a host beyond ASCII is written in Punycode, an address as four decimal numbers';
