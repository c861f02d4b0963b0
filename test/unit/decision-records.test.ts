import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const root = new URL('../../', import.meta.url);
const folder = new URL('docs/adr/', root);
const names = readdirSync(fileURLToPath(folder))
  .filter((name) => name !== 'README.md')
  .sort();

const shape =
  /^# (\d{4})\. .+\n\n- Date: \d{4}-\d{2}-\d{2}\n- Status: .+\n\n## Context\n[\s\S]+\n## Decision\n[\s\S]+\n## Consequences\n[\s\S]+\n## How to undo it\n[\s\S]+$/;

describe('decision records', () => {
  it.each(names)('%s has its number, a date, a status and every part', (name) => {
    const [, number] = shape.exec(readFileSync(new URL(name, folder), 'utf8')) ?? [];
    expect(name.slice(0, 5)).toBe(`${number}-`);
  });

  it('are numbered without a gap', () => {
    expect(names.map((name) => Number(name.slice(0, 4)))).toEqual(names.map((_, index) => index + 1));
  });

  it('are listed in README.md beside them, each once and in order', () => {
    const page = readFileSync(new URL('README.md', folder), 'utf8');
    const listed = [...page.matchAll(/^- \[[^\]]+\]\((\d{4}-[^)]+\.md)\):\s+\S/gm)];
    expect(listed.map(([, name]) => name)).toEqual(names);
  });
});
