/**
 * The form in which a text is scanned: NFKC (contract §7), decimal digits of every script as 0 to 9, every
 * dash as a hyphen, without soft hyphens, zero-width spaces and direction marks, which come along when a
 * number is copied from a page. The joiners U+200C and U+200D stay, because words and emoji contain them.
 * Idempotent.
 */
export function foldText(text: string): string {
  if (!beyondAscii.test(text)) return text;
  return text
    .replace(invisible, '')
    .normalize('NFKC')
    .replace(dashes, '-')
    .replace(digits, (digit) => String(digitValue(digit)));
}

const beyondAscii = /[\u0080-\uffff]/;
const invisible = /[\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]/g;
const dashes = /[\u2010-\u2015\u2212]/g;
const digits = /\p{Nd}/gu;
const isDigit = /^\p{Nd}$/u;

/**
 * Unicode has decimal digits in runs of ten, or multiples, from 0 to 9: the offset in the run is the value.
 */
function digitValue(digit: string): number {
  const code = digit.codePointAt(0) ?? 0;
  let distance = 0;
  while (isDigit.test(String.fromCodePoint(code - distance - 1))) distance += 1;
  return distance % 10;
}
