import { describe, expect, it } from 'vitest';
import { type PathProblem, pathProblem } from '../../../shared/decision/read-path.ts';
import { limits } from '../../../shared/model/limits.ts';

const problems: readonly (readonly [path: string, problem: PathProblem])[] = [
  ['', 'not_absolute'],
  ['*', 'not_absolute'],
  ['orders', 'not_absolute'],
  ['http://x.example/orders', 'not_absolute'],
  ['%2forders', 'not_absolute'],
  [`/${'a'.repeat(limits.requestPathCharsMax)}`, 'too_long'],
  ['/a b', 'unencoded_character'],
  ['/a\tb', 'unencoded_character'],
  ['/a\u0000b', 'unencoded_character'],
  ['/caf\u00e9', 'unencoded_character'],
  ['/a#b', 'unencoded_character'],
  ['/a\\b', 'backslash'],
  ['\\a', 'backslash'],
  ['//a', 'double_slash'],
  ['/a//b', 'double_slash'],
  ['/a//', 'double_slash'],
  ['/a;b=1/c', 'parameter'],
  ['/a;', 'parameter'],
  ['/a/../b', 'dot_segment'],
  ['/..', 'dot_segment'],
  ['/./a', 'dot_segment'],
  ['/a/.', 'dot_segment'],
  ['/a/%2e%2e/b', 'dot_segment'],
  ['/a/.%2E/b', 'dot_segment'],
  ['/%2e', 'dot_segment'],
  ['/a%2fb', 'encoded_delimiter'],
  ['/a%2Fb', 'encoded_delimiter'],
  ['/a%5cb', 'encoded_delimiter'],
  ['/a%5Cb', 'encoded_delimiter'],
  ['/a%3bb', 'encoded_delimiter'],
  ['/a%3Fb', 'encoded_delimiter'],
  ['/a%23b', 'encoded_delimiter'],
  ['/a%252fb', 'encoded_delimiter'],
  ['/a%00', 'encoded_control'],
  ['/a%0d%0ab', 'encoded_control'],
  ['/a%7f', 'encoded_control'],
  ['/a%C2%85b', 'encoded_control'],
  ['/a%', 'broken_encoding'],
  ['/a%2', 'broken_encoding'],
  ['/a%zz', 'broken_encoding'],
  ['/a%u002f', 'broken_encoding'],
  // Longer forms of a slash and a dot, and half a character.
  ['/a%c0%afb', 'broken_encoding'],
  ['/a%e0%80%afb', 'broken_encoding'],
  ['/%c0%ae%c0%ae/b', 'broken_encoding'],
  ['/a%ff', 'broken_encoding'],
  ['/a%ed%a0%80', 'broken_encoding'],
  // A full-width slash, backslash, semicolon and percent sign; a two-dot leader; an account-of sign (a/c).
  ['/a%EF%BC%8Fb', 'look_alike'],
  ['/a%EF%BC%BCb', 'look_alike'],
  ['/a%EF%BC%9Bb', 'look_alike'],
  ['/a%EF%BC%852f', 'look_alike'],
  ['/a/%E2%80%A5/b', 'look_alike'],
  ['/a/%E2%84%80', 'look_alike'],
];

describe('a path', () => {
  it.each(problems)('%j has the problem %s', (path, problem) => {
    expect(pathProblem(path)).toBe(problem);
  });

  it.each([
    '/',
    '/orders',
    '/orders/',
    '/orders/1.2.3',
    '/...',
    '/a../b',
    '/.well-known/x',
    '/~user/a-b_c',
    "/a!$&'()*+,=:@b",
    '/a%20b',
    '/%61dmin',
    '/users/joe%40example.com',
    '/caf%C3%A9',
    // The accent as a character of its own, as file names of macOS have it.
    '/cafe%CC%81',
    `/${'a'.repeat(limits.requestPathCharsMax - 1)}`,
  ])('%j has none', (path) => {
    expect(pathProblem(path)).toBeNull();
  });
});
