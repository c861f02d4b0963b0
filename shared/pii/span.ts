/** A piece of a text: from `start` up to, not including, `end`, in UTF-16 code units. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

/**
 * The text with these spans, sorted and apart, made unreadable, each other character in its place. What is
 * there ends a word and a number.
 */
export function mask(text: string, spans: readonly Span[]): string {
  if (spans.length === 0) return text;
  let masked = '';
  let done = 0;
  for (const { start, end } of spans) {
    masked += text.slice(done, start) + '\0'.repeat(end - start);
    done = end;
  }
  return masked + text.slice(done);
}

/**
 * The member names around a value and the words before a number say what it is; farther away they are about
 * something else.
 */
const contextCharsMax = 32;

/** Whether the words right before `start`, or the name of the member that the text is the value of, match. */
export function isNamed(words: RegExp, { text, start, name }: Named): boolean {
  return words.test(text.slice(Math.max(0, start - contextCharsMax), start)) || words.test(wordsOf(name));
}

/** The last words of a name, those of `homeTel` apart. */
export const wordsOf = (name: string): string =>
  name.slice(-contextCharsMax).replace(/(?<=[a-z])(?=[A-Z])/g, ' ');

interface Named {
  readonly text: string;
  readonly start: number;
  /** Empty: the text is no member's value. */
  readonly name: string;
}

/**
 * `end` of a text, and what is not of ASCII, is no word: scripts without spaces write numbers between their
 * letters.
 */
export const isWordAt = (text: string, index: number): boolean => {
  const code = text.charCodeAt(index);
  return isDigitCode(code) || isLetterCode(code) || code === 0x5f;
};

export const isDigitAt = (text: string, index: number): boolean => isDigitCode(text.charCodeAt(index));
export const isLetterAt = (text: string, index: number): boolean => isLetterCode(text.charCodeAt(index));

/** NaN, the code beyond the ends of a text, is neither. */
const isDigitCode = (code: number): boolean => code >= 0x30 && code <= 0x39;
const isLetterCode = (code: number): boolean => (code | 0x20) >= 0x61 && (code | 0x20) <= 0x7a;
