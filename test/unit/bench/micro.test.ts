import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { tricks } from '../../../bench/rows/micro.ts';
import { filesEnding } from '../../support/base/sources.ts';

const root = new URL('../../../', import.meta.url);
const read = (path: string): string => readFileSync(new URL(path, root), 'utf8');

/** What a text cites of row `micro`, also over the end of a line; an empty text: no trick is named. */
const citedIn = (text: string): readonly string[] =>
  [...text.replaceAll(/\n\s*\*\s*/g, ' ').matchAll(/bench row `micro`(?:: ([^)]+))?/g)].map(
    ([, trick = '']) => trick,
  );

const code = filesEnding('.ts').filter((path) => /^(?:shared|sidecar|control-plane|mcp-proxy)\//.test(path));
const cited = code.flatMap((path) => citedIn(read(path)).map((trick) => ({ path, trick })));

test('comments that cite row `micro` name one of its tricks', () => {
  const names = new Set(tricks.map(({ name }) => name));
  expect(cited.length).toBeGreaterThan(5);
  expect(cited.filter(({ trick }) => !names.has(trick))).toEqual([]);
});

test('a published page of row `micro` has every trick and its plain form', () => {
  const page = read('bench/results/amd/micro.md');
  const sides = tricks.flatMap(({ name, plain }) => [name, plain.name]);
  expect(sides.filter((side) => !page.includes(`\n| ${side} | `))).toEqual([]);
});
