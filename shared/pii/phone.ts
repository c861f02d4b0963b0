import { type CountryCode, isValidPhoneNumber } from 'libphonenumber-js/max';
import { isDigitAt, isWordAt, type Span, wordsOf } from './span.ts';

/** Remaining checks of one scan; each costs far more than reading the text. */
export interface PhoneChecks {
  left: number;
  /** Set by a candidate without a check left. */
  wereTooFew: boolean;
}

/**
 * Phone numbers. International ones of every country, with `+` or `00`. National ones of the regions below:
 * in their usual groups, without groups for mobile numbers that begin with 0, and in any form right after
 * words that announce them or as the value of a member so named. Candidates have bounded length, so the pass
 * is linear; libphonenumber decides about each.
 */
export function findPhones(written: string, name: string, checks: PhoneChecks): Span[] {
  // Same length, so that offsets stay valid; an opening bracket may precede the `+`.
  const text = written.includes('%2') ? written.replace(/%2b/gi, '((+') : written;
  const spans: Span[] = [];
  const candidates = new RegExp(candidate, 'g');
  let surroundings: Surroundings | null = null;
  for (let match = candidates.exec(text); match !== null; match = candidates.exec(text)) {
    surroundings ??= surroundingsOf(text, name);
    const around = surroundings;
    const start = match.index;
    const form = formAt(text, start, match[0], around);
    const end =
      form === null
        ? undefined
        : endingsOf(text, start, match[0].length).find((ending) => isPhone(text, start, ending, form, checks))
            ?.end;
    if (checks.wereTooFew) break;
    if (end !== undefined) spans.push({ start, end });
    candidates.lastIndex = end ?? endOfFirstGroup(text, start);
  }
  return spans;
}

/**
 * Seven to twenty digits with little between them. Without a `+` it does not begin inside a row of numbers,
 * in decimals, or after a hyphen, which are parts of identifiers and tables.
 */
const candidate =
  /(?:(?<![\w+])\({0,2}\+\(?|(?<![\w+(]|\d {1,2}|\w-|\d[.,:/])\({0,2})\d(?:[ .()/-]{0,3}\d){6,19}/;
const digitsMin = 7;
/** E.164, and the two zeros of an exit code. */
const digitsMax = 17;
/** Ends that are tried, the longest first: in `020 7946 0018 2 pieces` a digit follows the number. */
const endsMax = 3;

interface Ending {
  readonly end: number;
  /** The digits up to there, without the `(0)` for calls inside the country. */
  readonly digits: string;
}

function endingsOf(text: string, start: number, length: number): Ending[] {
  const endings: Ending[] = [];
  let digits = '';
  let count = 0;
  for (let at = start; at < start + length && count < digitsMax; at += 1) {
    if (isDigitAt(text, at)) {
      digits += text.charAt(at);
      count += 1;
      if (count >= digitsMin && !isWordAt(text, at + 1)) endings.push({ end: at + 1, digits });
    } else if (count === digits.length && at >= start + 2 && text.startsWith('(0)', at - 2)) {
      digits = digits.slice(0, -1);
    }
  }
  return endings.slice(-endsMax).reverse();
}

function endOfFirstGroup(text: string, start: number): number {
  let end = start;
  while (!isDigitAt(text, end)) end += 1;
  while (isDigitAt(text, end)) end += 1;
  return end;
}

/** Evidence for a candidate, whatever its end; without any it is dropped. */
interface Form {
  /** Written with a `+`, in URLs `%2B`. */
  readonly isMarked: boolean;
  /** Characters of an exit code; 0: it has none. */
  readonly exitCode: number;
  readonly isAnnounced: boolean;
  /** Announced right before. */
  readonly isAnnouncedNear: boolean;
  /** In groups, or with digits, that are recognisable without an announcement. */
  readonly isUsual: boolean;
}

const marked: Form = {
  isMarked: true,
  exitCode: 0,
  isAnnounced: false,
  isAnnouncedNear: false,
  isUsual: false,
};

/** Null: no phone number. Rows of digits and marks give many candidates, so cheap checks come first. */
function formAt(text: string, start: number, found: string, around: Surroundings): Form | null {
  if (found.includes('+')) return marked;
  const exitCode = lengthAt(exitCodes, text, start);
  const distance = distanceFromWord(around, start);
  const isSaid = distance <= distanceMax;
  const isUsual = !isSaid && lengthAt(usualBeginnings, text, start) > 0 && !isGlued(text, start);
  if (exitCode === 0 && !isSaid && !isUsual) return null;
  if (lengthAt(date, text, start) > 0 || around.endsOfOtherWords.has(start)) return null;
  return {
    isMarked: false,
    exitCode,
    isAnnounced: isSaid,
    isAnnouncedNear: distance <= nearDistanceMax,
    isUsual,
  };
}

/** `pattern` is sticky. 0: it does not match there. */
function lengthAt(pattern: RegExp, text: string, start: number): number {
  pattern.lastIndex = start;
  return pattern.exec(text)?.[0].length ?? 0;
}

function isPhone(
  text: string,
  start: number,
  { end, digits }: Ending,
  form: Form,
  checks: PhoneChecks,
): boolean {
  if (form.isMarked) return isInternational(`+${digits}`, checks);
  if (lengthAt(more, text, end) > 0) return false;
  if (form.exitCode > 0 && isInternational(`+${digits.slice(form.exitCode)}`, checks)) return true;
  if (form.isAnnounced) {
    return (
      isOf(announced, digits, checks) ||
      (form.isAnnouncedNear && isOf(announcedNear, digits, checks)) ||
      (/^[1-9]\d{9}/.test(digits) && isInternational(`+${digits}`, checks))
    );
  }
  if (!form.isUsual) return false;
  const written = text.slice(start, end);
  if (northAmerican.test(written)) return isOf(northAmerica, digits, checks);
  return usualGroups.some((pattern) => pattern.test(written)) && isOf(withZero, digits, checks);
}

/** The announcing words of a text, found once for all candidates. */
interface Surroundings {
  readonly isNamedSo: boolean;
  /** Ends of words that announce a phone number, in order. */
  readonly endsOfWords: readonly number[];
  /** Ends of words that announce another kind of number, including the joining characters. */
  readonly endsOfOtherWords: ReadonlySet<number>;
}

const surroundingsOf = (text: string, name: string): Surroundings => ({
  isNamedSo: words.test(wordsOf(name)) && !otherNames.test(wordsOf(name)),
  endsOfWords: ends(text, new RegExp(words, 'gi')),
  endsOfOtherWords: new Set(ends(text, otherWords)),
});

const ends = (text: string, pattern: RegExp): number[] =>
  Array.from(text.matchAll(pattern), ({ 0: found, index }) => index + found.length);

/** Farther away, words are about something else. */
const distanceMax = 24;
/** `número es (`, but not `call pin `. */
const nearDistanceMax = 4;

/** From the announcing word; Infinity: none. */
function distanceFromWord({ isNamedSo, endsOfWords }: Surroundings, start: number): number {
  if (isNamedSo) return 0;
  // The last word that ends at or before `start`.
  let low = 0;
  let high = endsOfWords.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((endsOfWords[middle] ?? 0) <= start) low = middle + 1;
    else high = middle;
  }
  return start - (endsOfWords[low - 1] ?? Number.NEGATIVE_INFINITY);
}

/** In a member name or in words before the number. */
const words =
  /phone|telef|t[eé]l[eé]f|mobile|m[oó]vil|whatsapp|msisdn|cellul|celular|(?<![a-z])(?:tel|t[eé]l|tfno|tlf|puh|cel|cell|call|dial|fax|mob|ph|sms|handy|sđt)(?![a-z])|contact[ _-]?n(?:o|um)|(?<![a-z])(?:my|mi|meu|mon|mein|meine) n(?:umber|[uú]mero|um[eé]ro|ummer)|тел|τηλ|هاتف|جوال|טלפון|โทร|전화|휴대폰|电话|電話|手机|我的号码|携帯|फ़ोन|फोन/i;
/** `phone_order_id` is the name of no phone number. */
const otherNames = /(?<![a-z])(?:id|hash|token|model|order|ref|type|count|version|price|brand)s?$/i;
const otherWords =
  /(?<![a-z])(?:order|invoice|ticket|case|ref|reference|serial|model|sku|part|item|imei|isbn|tracking|account|acct|batch|lot|id|sin|nhs|vat|siret|bestell|auftrags|rechnungs|kunden|artikel|serien|sendungs|vertrags|commande|facture|pedido|factura|ordine|fattura)[ .:#_-]{0,3}(?:n(?:um(?:ber|mer)?|[or°])|id)?[ .:#=_-]{0,3}/gi;

/** Decimals, or a continuation after a hyphen, slash or colon. */
const more = /,\d|[-/:]\w/y;

/** Year first, or day and month first without a further pair, which would make it a French number. */
const date =
  /(?:(?:19|20)\d\d[-./ ][01]?\d[-./ ][0-3]?\d|[0-3]?\d([-./ ])[01]?\d\1(?:19|20)?\d\d(?!\d|\1\d))(?!\d)/y;

/** Of any country, and of North America; a country code follows. */
const exitCodes = /00(?= ?[1-9])|011(?=[ -][1-9])/y;

const isGlued = (text: string, start: number): boolean =>
  /\w[./:=#@&]$/.test(text.slice(Math.max(0, start - 2), start));

/**
 * Forms of unannounced numbers: 3-3-4 in North America, elsewhere with the area code or its first digits
 * apart.
 */
const northAmerican = /^(?:1[ .-])?(?:\(\d{3}\) ?|\d{3}[ .-])\d{3}[ .-]\d{4}$/;
const usualGroups: readonly RegExp[] = [
  /^0[1-9](?:[ .-]\d\d){4}$/,
  /^\(?0[1-9]\)?[ -](?:\d{4}[ -]\d{4}|\d{8}|\d{3}[ -]\d{4}|\d{3}[ -]\d\d[ -]\d\d)$/,
  /^\(?0[1-9]\d{1,3}\)?[ /-]{1,3}\d{2,8}(?:[ -]\d{2,5}){0,3}$/,
  // Mobile numbers without groups: Britain; France, the Netherlands, Switzerland; Germany; Australia.
  /^(?:07\d{9}|0[67]\d{8}|01[567]\d{8,9}|04\d{8})$/,
];

/** The beginnings of all these forms. */
const usualBeginnings =
  /0[1-9](?:[ .-]\d\d){2}|\(?0[1-9]\)?[ -]\d{3}|\(?0[1-9]\d{1,3}\)?[ /-]{1,3}\d{2}|0[1-9]\d{8}|(?:1[ .-])?\(?\d{3}[) .-] ?\d{3}[ .-]\d{4}/y;

/**
 * National numbers of regions with a trunk 0 before the area code, or its first digit: enough to recognise
 * them.
 */
const withZero: readonly Region[] = [
  ['GB', /^0[1-9]\d{8,9}$/],
  ['DE', /^0[1-9]\d{6,10}$/],
  ['FR', /^0[1-9]\d{8}$/],
  ['IT', /^0\d{8,10}$/],
  ['NL', /^0[1-9]\d{8}$/],
  ['CH', /^0[2-9]\d{8}$/],
  ['AT', /^0[1-9]\d{7,11}$/],
  ['AU', /^0[2-8]\d{8}$/],
  ['JP', /^0[1-9]\d{8,9}$/],
];
/** All of +1. */
const northAmerica: readonly Region[] = [['US', /^1?[2-9]\d{2}[2-9]\d{6}$/]];
/** Announced ones, including those that look like any number. */
const announced: readonly Region[] = [
  ...northAmerica,
  ...withZero,
  ['ES', /^[6-9]\d{8}$/],
  ['IT', /^3\d{8,9}$/],
  ['IN', /^0?[1-9]\d{9}$/],
  ['CN', /^(?:1[3-9]\d{9}|0\d{9,11})$/],
  ['BR', /^0?[1-9]\d{9,10}$/],
];
/** Announced right before, including short ones that are more often a count. */
const announcedNear: readonly Region[] = [
  ['MX', /^[2-9]\d{9}$/],
  ['GR', /^(?:2|69)\d{8,9}$/],
  ['PL', /^[1-9]\d{8}$/],
  ['PT', /^[29]\d{8}$/],
  ['FI', /^0[1-9]\d{5,9}$/],
  // Eight digits that begin with a year are a date.
  ['DK', /^(?!20)[2-9]\d{7}$/],
  ['NO', /^(?!20)[2-9]\d{7}$/],
];

/** The longest of these regions, including the leading 0. */
const nationalDigitsMax = 13;

/** The pattern spares the library impossible candidates. */
type Region = readonly [region: CountryCode, digits: RegExp];

const isOf = (regions: readonly Region[], digits: string, checks: PhoneChecks): boolean =>
  digits.length <= nationalDigitsMax &&
  regions.some(([region, pattern]) => pattern.test(digits) && isValid(digits, region, checks));

/** `digits` begin with `+`. */
const isInternational = (digits: string, checks: PhoneChecks): boolean => isValid(digits, 'US', checks);

function isValid(number: string, region: CountryCode, checks: PhoneChecks): boolean {
  if (checks.left === 0) {
    checks.wereTooFew = true;
    return false;
  }
  checks.left -= 1;
  return isValidPhoneNumber(number, region);
}
