import { describe, expect, it } from 'vitest';
import { type PathProblem, pathProblem } from '../../../shared/decision/read-path.ts';
import { limits } from '../../../shared/model/limits.ts';

const problems: readonly (readonly [path: string, problem: PathProblem])[] = [
  ['', 'not_absolute'],
  ['orders', 'not_absolute'],
  [`/${'a'.repeat(limits.requestPathCharsMax)}`, 'too_long'],
  ['/a\u0000b', 'unencoded_character'],
  ['/caf\u00e9', 'unencoded_character'],
  ['/a\\b', 'backslash'],
  ['//a', 'double_slash'],
  ['/a;b=1/c', 'parameter'],
  ['/a/../b', 'dot_segment'],
  ['/a/%2e%2e/b', 'dot_segment'],
  ['/%2e', 'dot_segment'],
  ['/a%2fb', 'encoded_delimiter'],
  ['/a%5cb', 'encoded_delimiter'],
  ['/a%252fb', 'encoded_delimiter'],
  ['/a%00', 'encoded_control'],
  ['/a%C2%85b', 'encoded_control'],
  ['/a%u002f', 'broken_encoding'],
  // Longer forms of a slash and a dot, and half a character.
  ['/a%c0%afb', 'broken_encoding'],
  ['/a%ed%a0%80', 'broken_encoding'],
  // A full-width slash, backslash, semicolon and percent sign; a two-dot leader; an account-of sign (a/c).
  ['/a%EF%BC%8Fb', 'look_alike'],
  ['/a%EF%BC%852f', 'look_alike'],
  ['/a/%E2%80%A5/b', 'look_alike'],
  // Letters: full-width, circled, a ligature, superscript, long s, dotless i, one with a dot, Kelvin sign.
  ['/%EF%BD%81dmin', 'look_alike'],
  ['/%E2%84%AAeys', 'look_alike'],
  ['/ad%E2%80%8Bmin', 'invisible'],
  ['/admin%E2%80%A8', 'invisible'],
  ['/admin.', 'loose_end'],
  ['/admin%2e', 'loose_end'],
  ['/admin%20', 'loose_end'],
  ['/admin%E1%9A%80', 'loose_end'],
];

describe('a path', () => {
  it.each(problems)('%j has the problem %s', (path, problem) => {
    expect(pathProblem(path)).toBe(problem);
  });

  it.each([
    ...['/', '/orders', '/orders/', '/orders/1.2.3', '/..a/x', '/.well-known/x', "/a!$&'()*+,=:@b", '/a%20b'],
    ...['/users/joe%40example.com', '/caf%C3%A9', '/%E6%97%A5%E6%9C%AC/%D0%BF%D1%83%D1%82%D1%8C'],
    // The accent as a character of its own, as file names of macOS have it.
    '/cafe%CC%81',
    `/${'a'.repeat(limits.requestPathCharsMax - 1)}`,
  ])('%j has none', (path) => {
    expect(pathProblem(path)).toBeNull();
  });
});
