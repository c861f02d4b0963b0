import type { Span } from './span.ts';

/**
 * Email addresses: `local@domain.tld` in any script (RFC 6531, IDN), also with a quoted local part, and with
 * `%40` for the `@` in URLs. The walks from one sign end before the next one, so each character is visited at
 * most twice. Not addresses: hosts without a dot, versions of packages, names of files and units, users in
 * URLs (`https://user@host`), and remote paths (`git@host:path/`).
 */
export function findEmails(text: string): Span[] {
  const spans: Span[] = [];
  let free = 0;
  let afterSign = 0;
  for (const { 0: sign, index: at } of text.matchAll(signsIn(text))) {
    const domain = at + sign.length;
    const start =
      text[at - 1] === '"'
        ? startOfQuoted(text, at, free)
        : startOfLocalPart(text, at, Math.max(free, afterSign));
    const end = endOfDomain(text, domain);
    afterSign = domain;
    if (start === at || !isMailDomain(text.slice(domain, end))) continue;
    if (isUserOfUrl(text, start) || isRemotePath(text, end)) continue;
    spans.push({ start, end });
    free = end;
  }
  return spans;
}

/** A single character is found many times faster. */
const signsIn = (text: string): RegExp => (text.includes('%40') ? /@|%40/g : /@/g);

/**
 * RFC 5321 allows more. Delimiters of URLs and prose are excluded, so that a match does not swallow the rest
 * of a token.
 */
const localMark = /[._%+'~-]/;
const wordCharacter = /[\p{L}\p{M}\p{N}\p{Cs}]/u;
/** Scripts without spaces between words: an address begins and ends where the script changes. */
const spaceless =
  /[\p{scx=Han}\p{scx=Hiragana}\p{scx=Katakana}\p{scx=Thai}\p{scx=Lao}\p{scx=Khmer}\p{scx=Myanmar}]/u;
/** RFC 5321 §4.5.3.1.1; also the search range for an opening quotation mark. */
const localCharsMax = 64;

function startOfLocalPart(text: string, at: number, free: number): number {
  let start = at;
  let isSpaceless: boolean | null = null;
  while (start > free) {
    const character = text.charAt(start - 1);
    if (!localMark.test(character)) {
      if (!wordCharacter.test(character)) break;
      const kind = spaceless.test(character);
      if (isSpaceless !== null && kind !== isSpaceless) break;
      if (isSpaceless !== null || kind || !isNeutral(character)) isSpaceless = kind;
    }
    start -= 1;
  }
  // A local part neither begins nor ends with a dot; a quotation mark or hyphen before it belongs to the text
  // around.
  while (start < at && /[.'~-]/.test(text.charAt(start))) start += 1;
  return text[at - 1] === '.' ? at : start;
}

const isNeutral = (character: string): boolean => /\p{N}/u.test(character);

function startOfQuoted(text: string, at: number, free: number): number {
  const open = text.lastIndexOf('"', at - 2);
  return open >= free && at - open <= localCharsMax + 2 && open < at - 2 ? open : at;
}

function endOfDomain(text: string, from: number): number {
  let end = from;
  let isSpaceless: boolean | null = null;
  for (; end < text.length; end += 1) {
    const character = text.charAt(end);
    if (character === '.') {
      if (text[end + 1] === '.') break;
      isSpaceless = null;
    } else if (character !== '-') {
      if (!wordCharacter.test(character)) break;
      const kind = spaceless.test(character);
      if (isSpaceless !== null && kind !== isSpaceless) break;
      isSpaceless = kind;
    }
  }
  while (end > from && /[.-]/.test(text.charAt(end - 1))) end -= 1;
  return end;
}

/** Last labels that are no top-level domains but extensions of files and units. */
const notTopLevel =
  /^(?:avif|css|gif|gz|ico|jpe?g|js|json|mjs|mount|pdf|png|service|socket|svg|tar|target|tgz|timer|ts|webp|ya?ml)$/i;

function isMailDomain(domain: string): boolean {
  const labels = domain.split('.');
  const last = labels.at(-1) ?? '';
  if (labels.length < 2 || !/^(?:[\p{L}\p{M}]{2,}|xn--[a-z0-9-]+)$/iu.test(last) || notTopLevel.test(last))
    return false;
  if (
    labels.some(
      (label) => label.length === 0 || label.length > 63 || label.startsWith('-') || label.endsWith('-'),
    )
  )
    return false;
  // `4.17.21.beta` is a version, `163.com` a provider.
  return labels.filter((label) => /^\d+$/.test(label)).length < 2;
}

/** Longer than any user name with password. */
const userInfoCharsMax = 128;

function isUserOfUrl(text: string, start: number): boolean {
  const before = text.slice(Math.max(0, start - userInfoCharsMax), start);
  const authority = before.lastIndexOf('//');
  return authority !== -1 && !/[\s/?#]/.test(before.slice(authority + 2));
}

const isRemotePath = (text: string, end: number): boolean =>
  text[end] === ':' && /^:[\w.~-]*\/[\w.~-]/.test(text.slice(end, end + localCharsMax));
