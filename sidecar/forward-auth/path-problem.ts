import { limits } from '../../shared/model/limits.ts';

/**
 * Why a path may mean one thing here and another to the program behind the proxy (contract §15): a reader
 * that decodes first, merges slashes or resolves dots reaches another place. No permission is derived from
 * such a path. The values continue the sentence "The path can be read in more than one way: it ...".
 */
export const pathProblems = {
  not_absolute: 'does not begin with a slash',
  too_long: `is longer than ${limits.routedPathCharsMax} characters`,
  unencoded_character: 'has a character that must be percent-encoded',
  backslash: 'has a backslash',
  double_slash: 'has two slashes in a row',
  parameter: 'has a semicolon, before which some readers end the segment',
  broken_encoding: 'has a percent-encoding that is not valid UTF-8',
  encoded_delimiter: 'has an encoded slash, backslash, semicolon, question mark, number sign or percent sign',
  encoded_control: 'has an encoded control character',
  dot_segment: 'has a segment that is . or ..',
  look_alike: 'has a character that some readers turn into a slash, dot or another delimiter',
} as const;
export type PathProblem = keyof typeof pathProblems;

/** A path without its query, decoded for the comparison with routes; or why it cannot be compared. */
export type ReadPath =
  | { readonly kind: 'path'; readonly decoded: string }
  | { readonly kind: 'problem'; readonly problem: PathProblem };

const visibleAscii = /^[\x21-\x7e]*$/;
/** `"<>^`{|}` are in no URL either, but every reader takes them for themselves. */
const fragment = '#';

/** Linear in the length of the path. */
export function readPath(path: string): ReadPath {
  const problem = problemOfText(path);
  if (problem !== null) return { kind: 'problem', problem };
  let decoded = path;
  if (path.includes('%')) {
    try {
      decoded = decodeURIComponent(path);
    } catch {
      return { kind: 'problem', problem: 'broken_encoding' };
    }
  }
  const decodedProblem = problemOfDecoded(path, decoded);
  return decodedProblem === null ? { kind: 'path', decoded } : { kind: 'problem', problem: decodedProblem };
}

function problemOfText(path: string): PathProblem | null {
  if (path.length > limits.routedPathCharsMax) return 'too_long';
  if (path.includes('\\')) return 'backslash';
  if (!visibleAscii.test(path) || path.includes(fragment)) return 'unencoded_character';
  if (!path.startsWith('/')) return 'not_absolute';
  if (path.includes('//')) return 'double_slash';
  if (path.includes(';')) return 'parameter';
  return null;
}

const encodedDelimiter = /%(?:2f|5c|3b|3f|23|25)/i;
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const control = /[\u0000-\u001f\u007f-\u009f]/;
const dotSegment = /(?:^|\/)\.{1,2}(?:\/|$)/;
const delimiter = /[\\;?#%]|\/\/|\/\.{1,2}(?:\/|$)/;

function problemOfDecoded(path: string, decoded: string): PathProblem | null {
  if (encodedDelimiter.test(path)) return 'encoded_delimiter';
  if (control.test(decoded)) return 'encoded_control';
  if (dotSegment.test(decoded)) return 'dot_segment';
  if (visibleAscii.test(decoded)) return null;
  const folded = decoded.normalize('NFKC');
  const slashes = (text: string) => text.split('/').length;
  return delimiter.test(folded) || slashes(folded) !== slashes(decoded) ? 'look_alike' : null;
}
