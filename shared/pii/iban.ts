import { isWordAt, type Span } from './span.ts';

/**
 * International bank account numbers (ISO 13616): country, two check digits, and the length of that country,
 * with or without single spaces or hyphens in between, in either case; the check digits must be right (ISO
 * 7064, mod 97-10). The structure by country is not checked. Reads at most 67 characters from each possible
 * start.
 */
export function findIbans(text: string): Span[] {
  const spans: Span[] = [];
  let free = 0;
  for (const { index } of text.matchAll(beginnings)) {
    const start = index - (isWordAt(text, index - 1) ? 2 : 3);
    if (
      start < free ||
      (isWordAt(text, start - 1) && !labelled.test(text.slice(Math.max(0, start - 5), start)))
    )
      continue;
    const end = endOfIban(text, start);
    if (end === null) continue;
    spans.push({ start, end });
    free = end;
  }
  return spans;
}

/** The first check digit, then the country before it: in prose, half the time of a search for two letters. */
const beginnings = /\d(?<=[a-z]{2}[ -]?\d)[ -]?\d/gi;
/** `IBANDE89…`, as forms and bank statements run it together. */
const labelled = /(?:^|[^a-z])iban$/i;

/** Null: no IBAN starts here. */
function endOfIban(text: string, start: number): number | null {
  const length = lengths.get(text.slice(start, start + 2).toUpperCase());
  if (length === undefined) return null;
  let compact = '';
  let end = start;
  for (; compact.length < length; end += 1) {
    const character = text.charAt(end);
    if (isWordAt(text, end) && character !== '_') compact += character;
    else if ((character !== ' ' && character !== '-') || !isWordAt(text, end - 1)) return null;
  }
  return !isWordAt(text, end) && remainderOf97(compact) === 1 ? end : null;
}

/** ISO 7064 mod 97-10: the first four characters go to the end, letters count from A = 10. */
function remainderOf97(compact: string): number {
  let remainder = 0;
  for (const character of compact.slice(4) + compact.slice(0, 4)) {
    const value = Number.parseInt(character, 36);
    remainder = (remainder * (value < 10 ? 10 : 100) + value) % 97;
  }
  return remainder;
}

/** The IBAN registry of SWIFT, release 99. */
const lengths: ReadonlyMap<string, number> = new Map(
  [
    'AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28 EE20 EG29',
    'ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HN28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20',
    'LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 PS29',
    'PT25 QA29 RO24 RS22 RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20 YE30',
  ]
    .flatMap((line) => line.split(' '))
    .map((entry) => [entry.slice(0, 2), Number(entry.slice(2))]),
);
