import { domainToASCII, domainToUnicode } from 'node:url';
import { limits } from '../model/limits.ts';

/**
 * What ends a host name or splits one, and white space, which the URL standard would silently drop from the
 * middle of it.
 */
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are among what is refused.
const notPartOfHost = /[\u0000-\u0020\u007f%/:?#@\\[\]<>^|]/;
const portAtEnd = /:\d{1,5}$/;
const bracketedIpv6 = /^\[[0-9A-Fa-f:.]+\]$/;
const canonicalName = /^[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*$/;
/**
 * Names that IDNA gives back as they are: in lower case, without the `--` that marks an encoded label, and
 * with letters at the end, which no address has. Most requests name such a one, and asking takes four times
 * as long as looking (bench row `micro`: parseHost).
 */
const usualName = /^(?:[a-z0-9]+(?:-[a-z0-9]+)*\.)+[a-z]+$/;
const labelCharsMax = 63;
/** What encodes another label than itself: IDNA's prefix, and then Punycode. */
const encodedLabel = /^xn--/;
const nonAscii = /\P{ASCII}/u;
const ipv4 = /^\d+\.\d+\.\d+\.\d+$/;

/**
 * Brings a host name into the one form in which names are compared (contract §4): IDNA as the URL standard
 * does it (UTS #46), lower case, port and one trailing dot removed. IP addresses are hosts too: IPv6 in
 * brackets, IPv4 as four decimal numbers and in no other spelling (`127.1`, `0x7f.1`, `0177.0.0.1`), because
 * not every reader takes those for the same address. Null for everything else.
 */
export function parseHost(text: string): string | null {
  // Four times the limit leaves room for what IDNA shortens, and no more work than that for what it does not.
  if (text.length > 4 * limits.domainCharsMax) return null;
  // A usual name that is no longer than a label may be has none that is too long.
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
 * Asked of each label, because Node 24 gives back an ASCII name as it is where Node 20 and 22 refuse it for
 * what it encodes: control planes and sidecars on different versions must agree on a name.
 */
function isDecodable(label: string): boolean {
  if (!encodedLabel.test(label)) return true;
  const decoded = domainToUnicode(label);
  return nonAscii.test(decoded) && !encodedLabel.test(decoded);
}

/**
 * ß, ς and the joiners are letters of their own to the URL standard, and ss, σ and nothing to readers of the
 * first IDNA, as Python is: `faß.example` and `fass.example` are two hosts. A capital ß became one of them
 * only with Unicode 15.1.
 */
const readTwoWays = /[\u00df\u1e9e\u03c2\u200c\u200d]/;

/** A host name that a call goes to, as `parseHost` gives it; null also where it is none to every reader. */
export const parseCalledHost = (text: string): string | null =>
  readTwoWays.test(text) ? null : parseHost(text);

/**
 * An entry of `allowed_domains`: a host name, or `*.` and a host name for everything below it. Null for
 * everything else.
 */
export function parseDomainPattern(text: string): string | null {
  if (!text.startsWith('*.')) return parseHost(text);
  const parent = parseHost(text.slice(2));
  // Nothing lies below an address.
  return parent === null || parent.startsWith('[') || ipv4.test(parent) ? null : `*.${parent}`;
}

/**
 * Of RFC 3986 without user information, and with a host of letters that need no decoding. An empty port is
 * none (§3.2.3).
 */
const webUrl = /^https?:\/\/([a-z0-9._-]+|\[[0-9a-f:.]+\])(?::(\d{0,5}))?(?=[/?#]|$)/i;
/** What some readers take out or put right, and a backslash, which some of them take for a slash. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are among what is refused.
const readDifferently = /[\s\\\u0000-\u001f\u007f-\u009f]/;
const portMax = 65_535;

/**
 * The host of an absolute http or https URL, as `parseHost` gives it. Null for everything else, and for what
 * readers of RFC 3986 and of the URL standard may read differently: what is checked here must be where the
 * call goes (contract §5). A browser takes `https://api.example.com\\@evil.example/` to the first host, and
 * curl and Python to the second.
 */
export function parseUrlHost(text: string): string | null {
  const [, host = '', port = '0'] = webUrl.exec(text) ?? [];
  if (host === '' || Number(port) > portMax || readDifferently.test(text)) return null;
  return parseHost(host);
}

/** An absolute http or https URL that every reader reads alike (`parseUrlHost`). Null: it is none. */
export const parseWebUrl = (text: string): URL | null =>
  parseUrlHost(text) !== null && URL.canParse(text) ? new URL(text) : null;

/**
 * Whether every reader takes it for the same address: of http or https as above, of another scheme, an app's.
 */
export const isReadAlike = (uri: unknown): boolean =>
  typeof uri === 'string' &&
  (/^https?:/i.test(uri)
    ? parseUrlHost(uri) !== null
    : /^[a-z][a-z0-9+.-]*:/i.test(uri) && !readDifferently.test(uri));

/** What to send instead. */
export const webUrlRule =
  'an absolute http or https URL without a backslash, blank or user; a host beyond ASCII is written in Punycode, an address as four decimal numbers';
