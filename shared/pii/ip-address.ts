import { isLetterAt, isNamed, isWordAt, mask, type Span } from './span.ts';

/**
 * IPv4 in dotted decimals and IPv6 in every form of RFC 4291 §2.2, compressed and with an embedded IPv4
 * address. Loopback, private and documentation addresses are addresses too. Not addresses: versions, MAC and
 * EUI-64 addresses, times, and `a::b` in code, which is why an IPv6 address needs a digit.
 */
export function findIpAddresses(text: string, name: string): Span[] {
  const long = findIpv6(text);
  const short = findIpv4(mask(text, long), name);
  return [...long, ...short].sort((a, b) => a.start - b.start);
}

const dotted = /(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?!\w|\.\d)/g;
/** Words around four numbers that are no address. */
const countsSomethingElse = /version|release|build|firmware|\bver\b|\bv\.|section|chapter|clause|§|\boid\b/i;

/** Extensions of packages after the version. */
const packages = /^\.(?:tar|t?gz|zip|jar|whl|deb|rpm|exe|dll|msi|dmg|nupkg|so)\b/;

function findIpv4(text: string, name: string): Span[] {
  const spans: Span[] = [];
  for (const { 0: found, index: start } of text.matchAll(dotted)) {
    const end = start + found.length;
    if (!isIpv4(found)) continue;
    // `Chrome/120.0.0.0`, `1.2.3.4-beta` and `name-1.2.3.4.tar.gz` are versions.
    if (text[start - 1] === '/' && isLetterAt(text, start - 2) && found.endsWith('.0.0')) continue;
    if ((text[end] === '-' || text[end] === '+') && isLetterAt(text, end + 1)) continue;
    if (packages.test(text.slice(end, end + 8))) continue;
    if (isNamed(countsSomethingElse, { text, start, name })) continue;
    spans.push({ start, end });
  }
  return spans;
}

/** Eight groups of four digits, the last two perhaps as IPv4. */
const ipv6CharsMax = 45;
const partOfIpv6 = /[0-9a-f:.]/i;

/** Each run of IPv6 characters is walked once, and parsed once. */
function findIpv6(text: string): Span[] {
  const spans: Span[] = [];
  let free = 0;
  for (let colon = text.indexOf(':'); colon !== -1; colon = text.indexOf(':', free)) {
    let start = colon;
    while (start > free && partOfIpv6.test(text.charAt(start - 1))) start -= 1;
    free = colon + 1;
    while (free < text.length && partOfIpv6.test(text.charAt(free))) free += 1;
    // A time of day, or the colon of a sentence.
    const next = text.indexOf(':', colon + 1);
    if (next === -1 || next >= free) continue;
    const span = trimmed(text, { start, end: free });
    if (span.end - span.start > ipv6CharsMax || isWordAt(text, span.start - 1) || isWordAt(text, span.end))
      continue;
    if (isIpv6(text.slice(span.start, span.end))) spans.push(span);
  }
  return spans;
}

/** Without the word before it (`addr:2001:db8::1`), and the colon or full stop after it. */
function trimmed(text: string, run: Span): Span {
  let { start, end } = run;
  if (isWordAt(text, start - 1)) {
    const colon = text.indexOf(':', start);
    if (!/\d/.test(text.slice(start, colon))) start = colon;
  }
  if (text[start] === ':' && text[start + 1] !== ':') start += 1;
  while (end > start && (text[end - 1] === '.' || (text[end - 1] === ':' && text[end - 2] !== ':'))) end -= 1;
  return { start, end };
}

function isIpv6(text: string): boolean {
  const sides = text.split('::');
  const groups = sides.flatMap((side) => (side === '' ? [] : side.split(':')));
  if (sides.length > 2 || !/\d/.test(text)) return false;
  const last = groups.at(-1) ?? '';
  const isMixed = last.includes('.');
  if (isMixed && !isIpv4(last)) return false;
  const hex = isMixed ? groups.slice(0, -1) : groups;
  if (!hex.every((group) => /^[0-9a-f]{1,4}$/i.test(group))) return false;
  const count = hex.length + (isMixed ? 2 : 0);
  if (sides.length === 2) return count >= 1 && count <= 7;
  // Eight groups of two digits are an EUI-64 address.
  return count === 8 && (isMixed || groups.some((group) => group.length !== 2));
}

const octet = /^(?:0|[1-9]\d?|1\d\d|2[0-4]\d|25[0-5])$/;

function isIpv4(text: string): boolean {
  const parts = text.split('.');
  return parts.length === 4 && parts.every((part) => octet.test(part));
}
