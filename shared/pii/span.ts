/** A piece of a text: from `start` up to, not including, `end`, in UTF-16 code units. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

/** The text with these sorted, disjoint spans masked; offsets stay valid. A mask ends words and numbers. */
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

/** Member names and words this close to a number may describe it. */
const contextCharsMax = 32;

/** Whether the words right before `start`, or the name of the text's member, match. */
export function isNamed(words: RegExp, { text, start, name }: Named): boolean {
  return words.test(text.slice(Math.max(0, start - contextCharsMax), start)) || words.test(wordsOf(name));
}

/** The last words of a name; splits camel case (`homeTel`). */
export const wordsOf = (name: string): string =>
  name.slice(-contextCharsMax).replace(/(?<=[a-z])(?=[A-Z])/g, ' ');

interface Named {
  readonly text: string;
  readonly start: number;
  /** Empty: not a member's value. */
  readonly name: string;
}

/**
 * The text's end and non-ASCII characters are no words: scripts without spaces write numbers between their
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
