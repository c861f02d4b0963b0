import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { read, vectors } from './vectors.ts';

/** For evaluators in other languages: a line with the variables, then one for each vector. */
const file = fileURLToPath(new URL('../../vectors/conditions.jsonl', import.meta.url));

it('answers what test/vectors/conditions.jsonl says; UPDATE_DOCS=1 writes it', () => {
  const { nowMs: _, ...variables } = read;
  const lines = [{ variables }, ...vectors()].map((each) => `${JSON.stringify(each)}\n`).join('');
  if (process.env['UPDATE_DOCS'] === '1') writeFileSync(file, lines);
  expect(lines).toBe(readFileSync(file, 'utf8'));
  expect(vectors().length).toBeGreaterThan(500);
});
