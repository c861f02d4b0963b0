import { proxyLimits } from './limits.ts';

/**
 * Why two readers may read this JSON differently, as a sentence; null where they cannot. `text` is valid
 * JSON.
 *
 * Of two members with one name some readers take the first. A number that is no double is rounded by some
 * readers and not by others. A member `__proto__` changes the object in JavaScript that copies it. A reader
 * in C ends a name at NUL. JSON.parse shows little of this, which is why the text is read once more.
 */
export function findAmbiguity(text: string): string | null {
  /** The objects and arrays around this place. Null: an array. */
  const around: (Set<string> | null)[] = [];
  for (let at = 0; at < text.length; at++) {
    switch (text[at]) {
      case '{':
      case '[':
        if (around.length === proxyLimits.jsonDepthMax) {
          return `The JSON is nested deeper than ${proxyLimits.jsonDepthMax}.`;
        }
        around.push(text[at] === '{' ? new Set() : null);
        break;
      case '}':
      case ']':
        around.pop();
        break;
      case '"': {
        const end = endOfString(text, at);
        if (isFollowedByColon(text, end)) {
          const fault = takeName(around.at(-1) ?? null, JSON.parse(text.slice(at, end)));
          if (fault !== null) return fault;
        }
        at = end - 1;
        break;
      }
      default: {
        const number = /-|\d/.test(text[at] ?? '') ? numberAt(text, at) : '';
        if (number !== '' && !isExact(number)) return 'A number is too large or too exact: send it as text.';
        at += Math.max(0, number.length - 1);
      }
    }
  }
  return null;
}

function takeName(names: Set<string> | null, name: string): string | null {
  if (name === '__proto__') return 'A member is called __proto__.';
  if (name.includes('\0')) return 'The name of a member contains NUL.';
  if (names?.has(name) === true) return 'Two members of one object have the same name.';
  names?.add(name);
  return null;
}

/** Behind the closing quotation mark. */
function endOfString(text: string, start: number): number {
  let at = start + 1;
  while (text[at] !== '"') at += text[at] === '\\' ? 2 : 1;
  return at + 1;
}

function isFollowedByColon(text: string, from: number): boolean {
  let at = from;
  while (text[at] === ' ' || text[at] === '\n' || text[at] === '\r' || text[at] === '\t') at++;
  return text[at] === ':';
}

const numberCharacter = /[\d.eE+-]/;

function numberAt(text: string, start: number): string {
  let end = start + 1;
  while (end < text.length && numberCharacter.test(text[end] ?? '')) end++;
  return text.slice(start, end);
}

/** More than a double ever has, when it is written out. */
const literalCharsMax = 400;

/** Whether a double holds this number as it is written. */
const isExact = (literal: string): boolean =>
  /^-?\d{1,15}$/.test(literal) ||
  (literal.length <= literalCharsMax &&
    Number.isFinite(Number(literal)) &&
    decimalOf(literal) === decimalOf(String(Number(literal))));

/** One spelling of each decimal number: `1.50e1` and `15` are both `15e0`. */
function decimalOf(literal: string): string {
  const [, sign = '', whole = '', fraction = '', exponent = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(literal) ?? [];
  const digits = `${whole}${fraction}`.replace(/^0+/, '');
  const significant = digits.replace(/0+$/, '');
  if (significant === '') return '0';
  return `${sign}${significant}e${Number(exponent) - fraction.length + digits.length - significant.length}`;
}
