import { isDigitAt, isLetterAt, type Span } from './span.ts';

/**
 * Numbers of payment cards: 13 to 19 digits with a right check digit (Luhn, ISO/IEC 7812-1) in the range and
 * length of an issuer. Without separators, in the usual groups with spaces or hyphens, or in any groups if
 * the chain of digits holds nothing else. A fixed number of shapes is tried per group, so the work is linear.
 */
export function findPaymentCards(text: string): Span[] {
  const spans: Span[] = [];
  for (const { 0: chain, index } of text.matchAll(chains)) {
    if (chain.length < digitsMin || !mayStandAlone(text, index, index + chain.length)) continue;
    const groups = groupsOf(chain, index);
    if (groups.length > 1 && isCard(chain.replace(/\D/g, '')))
      spans.push({ start: index, end: index + chain.length });
    else spans.push(...findInGroups(text, groups));
  }
  return spans;
}

const digitsMin = 13;
const digitsMax = 19;
/** Digits with single spaces or hyphens in between. */
const chains = /(?<![\w+])\d+(?:[ -]\d+)*(?!\w)/g;

/** Not the decimals of a number, nor the rest of an identifier such as `a1-4111…`; `card-4111…` is fine. */
function mayStandAlone(text: string, start: number, end: number): boolean {
  if (isDecimalPoint(text, start - 1) || isDecimalPoint(text, end)) return false;
  if (text[end] === '-' && isLetterAt(text, end + 1)) return false;
  if (text[start - 1] !== '-') return true;
  const before = /[a-z0-9_]*$/i.exec(text.slice(Math.max(0, start - 33), start - 1));
  return !/\d/.test(before?.[0] ?? '');
}

const isDecimalPoint = (text: string, index: number): boolean =>
  text[index] === '.' && isDigitAt(text, index - 1) && isDigitAt(text, index + 1);

function groupsOf(chain: string, offset: number): Span[] {
  return Array.from(chain.matchAll(/\d+/g), ({ 0: digits, index }) => ({
    start: offset + index,
    end: offset + index + digits.length,
  }));
}

/** Lengths of groups, as cards are printed and typed. */
const shapes: readonly (readonly number[])[] = [
  [4, 4, 4, 4, 3],
  [4, 4, 4, 4, 2],
  [4, 4, 4, 4, 1],
  [4, 4, 4, 4],
  [4, 6, 5],
  [4, 6, 4],
  [6, 13],
  [4, 4, 4, 1],
  [8, 8],
];

function findInGroups(text: string, groups: readonly Span[]): Span[] {
  const spans: Span[] = [];
  for (let first = 0; first < groups.length; first += 1) {
    const count = groupsOfCard(text, groups, first);
    const start = groups[first]?.start;
    const end = groups[first + count - 1]?.end;
    if (count === 0 || start === undefined || end === undefined) continue;
    spans.push({ start, end });
    first += count - 1;
  }
  return spans;
}

/** Number of groups from this one on that form a card; 0: none. */
function groupsOfCard(text: string, groups: readonly Span[], first: number): number {
  const one = groups[first];
  if (one !== undefined && isCard(text.slice(one.start, one.end))) return 1;
  const shape = shapes.find(
    (lengths) =>
      lengths.every((length, place) => lengthOf(groups[first + place]) === length) &&
      isCard(
        groups
          .slice(first, first + lengths.length)
          .map(({ start, end }) => text.slice(start, end))
          .join(''),
      ),
  );
  return shape?.length ?? 0;
}

const lengthOf = (span: Span | undefined): number => (span === undefined ? 0 : span.end - span.start);

function isCard(digits: string): boolean {
  if (digits.length < digitsMin || digits.length > digitsMax) return false;
  return hasIssuer(digits) && passesLuhn(digits);
}

/**
 * First digits, from and to, and the lengths of such cards. From the public lists of the networks; ranges of
 * single banks are left out.
 */
const issuers: readonly (readonly [from: number, to: number, lengths: readonly number[]])[] = [
  // Visa
  [4, 4, [13, 16, 19]],
  // Mastercard
  [51, 55, [16]],
  [2221, 2720, [16]],
  // American Express
  [34, 34, [15]],
  [37, 37, [15]],
  // Discover and RuPay
  [6011, 6011, [16, 17, 18, 19]],
  [644, 649, [16, 17, 18, 19]],
  [65, 65, [16, 17, 18, 19]],
  [60, 60, [16]],
  [508, 508, [16]],
  // JCB
  [3528, 3589, [16, 17, 18, 19]],
  // Diners Club
  [300, 305, [14, 16]],
  [3095, 3095, [14, 16]],
  [36, 36, [14, 16]],
  [38, 39, [14, 16]],
  // UnionPay and RuPay
  [62, 62, [16, 17, 18, 19]],
  [81, 82, [16, 17, 18, 19]],
  // Maestro
  [5018, 5018, [13, 14, 15, 16, 17, 18, 19]],
  [5020, 5020, [13, 14, 15, 16, 17, 18, 19]],
  [5038, 5038, [13, 14, 15, 16, 17, 18, 19]],
  [5612, 5612, [13, 14, 15, 16, 17, 18, 19]],
  [5893, 5893, [13, 14, 15, 16, 17, 18, 19]],
  [6304, 6304, [13, 14, 15, 16, 17, 18, 19]],
  [6390, 6390, [13, 14, 15, 16, 17, 18, 19]],
  [6759, 6763, [13, 14, 15, 16, 17, 18, 19]],
  [6799, 6799, [13, 14, 15, 16, 17, 18, 19]],
  // Mir
  [2200, 2204, [16, 17, 18, 19]],
];

const hasIssuer = (digits: string): boolean =>
  issuers.some(([from, to, lengths]) => {
    const prefix = Number(digits.slice(0, String(from).length));
    return prefix >= from && prefix <= to && lengths.includes(digits.length);
  });

function passesLuhn(digits: string): boolean {
  let sum = 0;
  for (let place = 0; place < digits.length; place += 1) {
    const digit = Number(digits[digits.length - 1 - place]);
    const counted = place % 2 === 0 ? digit : digit * 2;
    sum += counted > 9 ? counted - 9 : counted;
  }
  return sum % 10 === 0;
}
