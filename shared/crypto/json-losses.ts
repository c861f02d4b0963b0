/**
 * A silent loss of JSON.parse: a number that no double holds, or the first of two members with one name
 * (I-JSON, RFC 7493 §2.2 and §2.3). Another parser may keep it, and no hash shows the difference.
 */
export interface JsonLoss {
  readonly kind: 'number' | 'name';
  /** Names and indexes, outermost first, at most `pathStepsMax`. */
  readonly path: readonly (string | number)[];
}

/** Callers refuse deeper nesting anyway. */
const pathStepsMax = 100;

/**
 * Whether JSON.parse has read `value` from the text without a loss. Linear time, without recursion. A
 * duplicate member shows as more names in the text than members in the value.
 */
export const isLossless = (text: string, value: unknown): boolean => namesIn(text) === countMembers(value);

/**
 * The number of members written in a JSON text, duplicates included. Null: it has a number that no double
 * holds.
 */
export function namesIn(text: string): number | null {
  let names = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === quote) at = endOfString(text, at) - 1;
    else if (code === colon) names++;
    else if (isNumberStart(code)) {
      const end = endOfNumber(text, at);
      if (!isExactNumber(text, at, end)) return null;
      at = end - 1;
    }
  }
  return names;
}

function countMembers(value: unknown): number {
  const around: unknown[] = [value];
  let count = 0;
  while (around.length > 0) {
    const each = around.pop();
    if (typeof each !== 'object' || each === null) continue;
    const members: readonly unknown[] = Array.isArray(each) ? each : Object.values(each);
    if (!Array.isArray(each)) count += members.length;
    for (const member of members) if (typeof member === 'object') around.push(member);
  }
  return count;
}

/** An object or array around the current place. */
interface Around {
  /** The names so far. Null: an array. */
  readonly names: Set<string> | null;
  step: string | number;
}

/**
 * Each loss with its place. Several times slower than `isLossless`, so only after that is false. `text`:
 * JSON.
 */
export function* jsonLosses(text: string): Generator<JsonLoss> {
  const around: Around[] = [];
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    const inner = around.at(-1);
    switch (code) {
      case openBrace:
        around.push({ names: new Set(), step: '' });
        break;
      case openBracket:
        around.push({ names: null, step: 0 });
        break;
      case closeBrace:
      case closeBracket:
        around.pop();
        break;
      case comma:
        if (typeof inner?.step === 'number') inner.step += 1;
        break;
      case quote: {
        const end = endOfString(text, at);
        if (inner !== undefined && inner.names !== null && isFollowedByColon(text, end)) {
          const name: string = JSON.parse(text.slice(at, end));
          inner.step = name;
          if (inner.names.has(name)) yield { kind: 'name', path: pathOf(around) };
          inner.names.add(name);
        }
        at = end - 1;
        break;
      }
      default:
        if (isNumberStart(code)) {
          const end = endOfNumber(text, at);
          if (!isExactNumber(text, at, end)) yield { kind: 'number', path: pathOf(around) };
          at = end - 1;
        }
    }
  }
}

const pathOf = (around: readonly Around[]) => around.slice(0, pathStepsMax).map(({ step }) => step);

const quote = 0x22;
const comma = 0x2c;
const colon = 0x3a;
const openBracket = 0x5b;
const backslash = 0x5c;
const closeBracket = 0x5d;
const openBrace = 0x7b;
const closeBrace = 0x7d;

/** Most strings are shorter, and scanning their characters is faster than a call of `indexOf`. */
const shortStringChars = 32;

/** After the closing quotation mark. Each character is looked at at most twice. */
export function endOfString(text: string, start: number): number {
  let at = start + 1;
  for (const short = at + shortStringChars; at < short; at++) {
    const code = text.charCodeAt(at);
    if (code === quote) return at + 1;
    if (code === backslash) at++;
  }
  // A quotation mark before `at` was escaped, and so is one after an odd number of backslashes.
  let end = text.indexOf('"', at);
  while (isEscaped(text, end)) end = text.indexOf('"', end + 1);
  return end + 1;
}

function isEscaped(text: string, at: number): boolean {
  let before = at - 1;
  while (text.charCodeAt(before) === backslash) before--;
  return (at - before) % 2 === 0;
}

function isFollowedByColon(text: string, from: number): boolean {
  let at = from;
  while (text.charCodeAt(at) <= 0x20) at++;
  return text.charCodeAt(at) === colon;
}

const isNumberStart = (code: number): boolean => (code >= 0x30 && code <= 0x39) || code === 0x2d;

function endOfNumber(text: string, start: number): number {
  let end = start + 1;
  while (isNumberPart(text.charCodeAt(end))) end++;
  return end;
}

/** Digits, the point, signs, and `e` in both cases; not NaN, the code after the end. */
const isNumberPart = (code: number): boolean =>
  (code >= 0x2b && code <= 0x39 && code !== comma && code !== 0x2f) || (code | 0x20) === 0x65;

/** A double has at least this many exact significant digits. */
const surelyExactChars = 15;

/**
 * Whether the literal's decimal value equals the shortest form of its double. True for `-0`, which RFC 8785
 * §3.2.2.3 writes as 0.
 */
function isExactNumber(text: string, start: number, end: number): boolean {
  if (end - start <= surelyExactChars && !hasExponent(text, start, end)) return true;
  const literal = text.slice(start, end);
  const value = Number(literal);
  return Number.isFinite(value) && decimalOf(literal) === decimalOf(String(value));
}

function hasExponent(text: string, start: number, end: number): boolean {
  for (let at = start; at < end; at++) if ((text.charCodeAt(at) | 0x20) === 0x65) return true;
  return false;
}

/**
 * The canonical spelling of a decimal number: `1.50e1` and `15` are both `15e0`. Only removes digits:
 * `1e1000000000` has one.
 */
function decimalOf(literal: string): string {
  const [, sign = '', whole = '', fraction = '', exponent = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(literal) ?? [];
  const digits = whole + fraction;
  let first = 0;
  while (digits[first] === '0') first++;
  let end = digits.length;
  while (end > first && digits[end - 1] === '0') end--;
  if (first === end) return '0';
  return `${sign}${digits.slice(first, end)}e${Number(exponent) - fraction.length + digits.length - end}`;
}
