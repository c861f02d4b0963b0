import { limits } from '../model/limits.ts';

/**
 * Why a path may mean something else to the program behind the proxy (contract §15): a reader that decodes
 * first, merges slashes or resolves dots reaches another place. No permission is derived from such a path.
 * The values continue a sentence about the path: "it ...".
 */
export const pathProblems = {
  not_absolute: 'does not begin with a slash',
  too_long: `is longer than ${limits.requestPathCharsMax} characters`,
  unencoded_character: 'has a character that must be percent-encoded',
  backslash: 'has a backslash',
  double_slash: 'has two slashes in a row',
  parameter: 'has a semicolon, at which some readers end the segment',
  broken_encoding: 'has a percent-encoding that is not valid UTF-8',
  encoded_delimiter: 'has an encoded slash, backslash, semicolon, question mark, number sign or percent sign',
  encoded_control: 'has an encoded control character',
  dot_segment: 'has a segment that is . or ..',
  loose_end: 'has a segment with a dot at its end, or a blank at an end',
  look_alike: 'has a character that some readers turn into another one, such as a letter or a delimiter',
  invisible: 'has a character that is not shown, which some readers leave out',
} as const;
export type PathProblem = keyof typeof pathProblems;

/**
 * The first problem of a path as sent, without its query; null: every reader finds the same segments. Linear
 * in its length.
 */
export function pathProblem(path: string): PathProblem | null {
  if (path.length > limits.requestPathCharsMax) return 'too_long';
  if (path.includes('\\')) return 'backslash';
  if (!visibleAscii.test(path) || path.includes('#')) return 'unencoded_character';
  if (!path.startsWith('/')) return 'not_absolute';
  if (path.includes('//')) return 'double_slash';
  if (path.includes(';')) return 'parameter';
  if (!path.includes('%')) return path.includes('.') ? problemOfEnds(path) : null;
  if (encodedDelimiter.test(path)) return 'encoded_delimiter';
  const decoded = decode(path);
  return decoded === null ? 'broken_encoding' : problemOfDecoded(decoded);
}

const visibleAscii = /^[\x21-\x7e]*$/;
/** Each of these ends a segment, a path or an escape if decoded again, or before the split. */
const encodedDelimiter = /%(?:2f|5c|3b|3f|23|25)/i;
const dotSegment = /\/\.{1,2}(?:\/|$)/;
/** Windows programs drop these; others trim blanks. */
const looseEnd = /[.\s](?:\/|$)|\/\s/;
/** Soft hyphens, joiners, marks of direction, selectors of variants, ends of lines. */
const invisible = /[\p{Default_Ignorable_Code_Point}\p{Cf}\p{Zl}\p{Zp}]/u;
/** Letters with an ASCII letter as their other case: to case-insensitive readers, İ and ı are an i. */
const asciiInOtherCase = /[\u0130\u0131\u017f\u212a]/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const control = /[\u0000-\u001f\u007f-\u009f]/;

// biome-ignore lint/suspicious/noControlCharactersInRegex: ASCII has them
const beyondAscii = /[^\x00-\x7f]/;

/**
 * Folds like readers that map characters to a smaller set, for example a full-width slash or letter. Per
 * character, so a combining accent, as in macOS file names, stays.
 */
const isLookAlike = (character: string): boolean =>
  character.normalize('NFKC') !== character || asciiInOtherCase.test(character);

function decode(path: string): string | null {
  try {
    return decodeURIComponent(path);
  } catch {
    return null;
  }
}

function problemOfDecoded(decoded: string): PathProblem | null {
  if (control.test(decoded)) return 'encoded_control';
  if (invisible.test(decoded)) return 'invisible';
  if (beyondAscii.test(decoded) && [...decoded].some(isLookAlike)) return 'look_alike';
  return problemOfEnds(decoded);
}

function problemOfEnds(path: string): PathProblem | null {
  if (dotSegment.test(path)) return 'dot_segment';
  return looseEnd.test(path) ? 'loose_end' : null;
}
