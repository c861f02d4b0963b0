import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { filesEnding } from '../support/base/sources.ts';

/** Biome wraps code at this width and leaves comments and prose as they are. */
const columnsMax = 110;
const root = fileURLToPath(new URL('../../', import.meta.url));

const files = filesEnding('.ts', '.mjs', '.md');

/** Drawings and tables cannot be wrapped; an address or a formula without a space cannot either. */
const cannotWrap = (text: string): boolean =>
  /[─│┌└├┴┬>]{2}|^ *\|/u.test(text) || !text.trim().slice(0, columnsMax).includes(' ');

/** Line numbers of the comments of a source file that are too long. */
function longComments(source: string): number[] {
  return source.split('\n').flatMap((line, place) => {
    const comment = /^ *(?:\/\*\*|\*|\/\/) (.*)$/.exec(line)?.[1];
    return comment === undefined || [...line].length <= columnsMax || cannotWrap(comment) ? [] : [place + 1];
  });
}

/** The same of the prose of a Markdown file: not of its headings, tables, links and code. */
function longProse(source: string): number[] {
  let isCode = false;
  return source.split('\n').flatMap((line, place) => {
    if (line.trimStart().startsWith('```')) isCode = !isCode;
    const isProse = !isCode && !/^(?: {4}|#|<|\[)/.test(line);
    return isProse && [...line].length > columnsMax && !cannotWrap(line) ? [place + 1] : [];
  });
}

const tooLong = (path: string): string[] => {
  const source = readFileSync(join(root, path), 'utf8');
  const lines = path.endsWith('.md') ? longProse(source) : longComments(source);
  return lines.map((line) => `${path}:${line}`);
};

it(`wraps comments and prose at ${columnsMax} columns`, () => {
  expect(files.length).toBeGreaterThan(500);
  expect(files.flatMap(tooLong)).toEqual([]);
});

/** No formatter of this project wraps Python; what is generated has long unions. */
it('wraps all of Python at the same width', () => {
  const python = filesEnding('.py').filter((path) => !path.endsWith('/_operations.py'));
  expect(python.length).toBeGreaterThan(10);
  const long = python.flatMap((path) => {
    const lines = readFileSync(join(root, path), 'utf8').split('\n');
    return lines.flatMap((line, place) => ([...line].length > columnsMax ? [`${path}:${place + 1}`] : []));
  });
  expect(long).toEqual([]);
});
