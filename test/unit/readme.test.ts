import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { renderSettingsTable } from '../../shared/runtime/describe-settings.ts';

const readme = new URL('../../README.md', import.meta.url);
const settingsPart = /(<!-- settings -->\n)[\s\S]*?(<!-- \/settings -->)/;

it('holds the table of settings as the programs know them (UPDATE_DOCS=1 writes it)', () => {
  const text = readFileSync(readme, 'utf8');
  const wanted = text.replace(settingsPart, (_all, begin, end) => `${begin}${renderSettingsTable()}\n${end}`);
  if (process.env['UPDATE_DOCS'] === '1') writeFileSync(readme, wanted);
  else expect(text).toBe(wanted);
});

it('names only scripts and files that exist', () => {
  const text = readFileSync(readme, 'utf8');
  const { scripts } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));
  const named = [...text.matchAll(/npm run ([a-z:]+)/g)].map((match) => match[1] ?? '');
  expect(named.length).toBeGreaterThan(3);
  expect(named.filter((script) => !(script in scripts))).toEqual([]);

  const linked = [...text.matchAll(/\]\((?!https?:)([^)#]+)\)/g)].map((match) => match[1] ?? '');
  expect(linked.length).toBeGreaterThan(3);
  expect(linked.filter((path) => !existsSync(new URL(`../../${path}`, import.meta.url)))).toEqual([]);
});
