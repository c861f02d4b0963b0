import { SourceFault } from './fault.ts';
import { isInt64 } from './form.ts';

/** The words of CEL's grammar. */
export type Token =
  | { readonly kind: 'name' | 'mark' | 'string'; readonly at: number; readonly text: string }
  | { readonly kind: 'int'; readonly at: number; readonly text: string; readonly value: bigint }
  | { readonly kind: 'double'; readonly at: number; readonly text: string; readonly value: number }
  | { readonly kind: 'end'; readonly at: number; readonly text: string };

const space = /(?:[\t\n\f\r ]+|\/\/[^\n]*)*/y;
const name = /[A-Za-z_][A-Za-z0-9_]*/y;
const number = /(?:0[xX][0-9A-Fa-f]+|(?:\d+\.\d+|\.\d+|\d+)(?:[eE][+-]?\d+)?)/y;
const mark = /&&|\|\||[=!<>]=|[-+*/%<>!?:.,[\](){}]/y;
const quote = /([rRbB]{0,2})("""|'''|"|')/y;
const escaped =
  /\\(?:([abfnrtv\\?"'`])|[xX]([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([0-3][0-7]{2}))/y;
const escapes: Readonly<Record<string, string>> = {
  ...{ a: '\x07', b: '\b', f: '\f', n: '\n', r: '\r', t: '\t', v: '\v' },
};

/** All words of that source, and the end. Linear in its length. */
export function tokensOf(source: string): readonly Token[] {
  const tokens: Token[] = [];
  let at = 0;
  const take = (pattern: RegExp): RegExpExecArray | null => {
    pattern.lastIndex = at;
    const found = pattern.exec(source);
    if (found !== null) at = pattern.lastIndex;
    return found;
  };
  for (;;) {
    take(space);
    const start = at;
    if (start === source.length) return [...tokens, { kind: 'end', at, text: '' }];
    const opened = take(quote);
    if (opened !== null) {
      const text = readString(source, { start, at, prefix: opened[1] ?? '', closing: opened[2] ?? '' });
      at = text.end;
      tokens.push({ kind: 'string', at: start, text: text.value });
      continue;
    }
    const word = take(name)?.[0];
    if (word !== undefined) {
      tokens.push({ kind: 'name', at: start, text: word });
      continue;
    }
    const digits = take(number)?.[0];
    if (digits !== undefined) {
      const after = source[at] ?? '';
      if (after === 'u' || after === 'U') throw new SourceFault(start, 'uint is not available; write an int');
      if (/[A-Za-z_]/.test(after)) throw new SourceFault(start, 'not a number');
      tokens.push(numberToken(digits, start));
      continue;
    }
    const sign = take(mark)?.[0];
    if (sign === undefined) {
      const char = String.fromCodePoint(source.codePointAt(at) ?? 0);
      const hint = char === '=' ? "; compare by '=='" : '';
      throw new SourceFault(at, `'${char}' is no part of CEL${hint}`);
    }
    tokens.push({ kind: 'mark', at: start, text: sign });
  }
}

function numberToken(text: string, at: number): Token {
  if (/^(?:0[xX]|\d+$)/.test(text)) {
    const value = BigInt(text);
    // A minus in front is a word of its own; 2^63 is whole only behind one.
    if (!isInt64(-value)) throw new SourceFault(at, 'the int does not fit into 64 bits');
    return { kind: 'int', at, text, value };
  }
  const value = Number(text);
  if (!Number.isFinite(value)) throw new SourceFault(at, 'the double is too large');
  return { kind: 'double', at, text, value };
}

interface Opened {
  readonly start: number;
  readonly at: number;
  readonly prefix: string;
  readonly closing: string;
}

function readString(source: string, { start, at, prefix, closing }: Opened): { value: string; end: number } {
  if (/b/i.test(prefix)) throw new SourceFault(start, 'bytes are not available; write a string');
  if (prefix.length > 1) throw new SourceFault(start, `${prefix} is no prefix of a string`);
  let value = '';
  for (let next = at; next < source.length; ) {
    if (source.startsWith(closing, next)) return { value, end: next + closing.length };
    const char = source[next] ?? '';
    if (closing.length === 1 && (char === '\n' || char === '\r')) break;
    if (char !== '\\' || prefix !== '') {
      value += char;
      next += 1;
      continue;
    }
    escaped.lastIndex = next;
    const found = escaped.exec(source);
    if (found === null) throw new SourceFault(next, 'CEL has no such escape sequence in a string');
    value += unescaped(found, next);
    next += found[0].length;
  }
  throw new SourceFault(start, 'the string is not closed');
}

function unescaped([, letter, x, u, U, octal]: RegExpExecArray, at: number): string {
  if (letter !== undefined) return escapes[letter] ?? letter;
  const code = octal !== undefined ? Number.parseInt(octal, 8) : Number.parseInt(x ?? u ?? U ?? '', 16);
  if (code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) {
    throw new SourceFault(at, 'Unicode has no such character');
  }
  return String.fromCodePoint(code);
}
