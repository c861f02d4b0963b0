import { limits } from '../model/limits.ts';

/**
 * Why a path may mean one thing here and another to the program behind the proxy (contract §15): a reader
 * that decodes first, merges slashes or resolves dots reaches another place. No permission is derived from
 * such a path. The values continue a sentence about the path: "it ...".
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
 * The first problem of a path as it was sent, without its query; null: every reader finds the same segments
 * in it. Takes time in proportion to its length.
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
/** Decoded once more, or before the path is split, each of them ends a segment, a path or an escape. */
const encodedDelimiter = /%(?:2f|5c|3b|3f|23|25)/i;
const dotSegment = /\/\.{1,2}(?:\/|$)/;
/** Windows and what is written for it leave them out; others trim blanks. */
const looseEnd = /[.\s](?:\/|$)|\/\s/;
/** Soft hyphens, joiners, marks of direction, selectors of variants, ends of lines. */
const invisible = /[\p{Default_Ignorable_Code_Point}\p{Cf}\p{Zl}\p{Zp}]/u;
/** Letters of which the other case is one of ASCII: to readers that do not mind case, İ and ı are an i. */
const asciiInOtherCase = /[\u0130\u0131\u017f\u212a]/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const control = /[\u0000-\u001f\u007f-\u009f]/;

// biome-ignore lint/suspicious/noControlCharactersInRegex: ASCII has them
const beyondAscii = /[^\x00-\x7f]/;

/**
 * As readers fold a full-width slash or letter, for example, that map characters to a smaller set. One by
 * one: an accent that is a character of its own, as file names of macOS have it, is left.
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
