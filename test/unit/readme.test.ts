import { readFileSync, writeFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { renderSettingsTable } from '../../shared/runtime/describe-settings.ts';
import { renderExitCodesTable } from '../../shared/runtime/exit-codes.ts';

const readme = new URL('../../README.md', import.meta.url);
const settingsPage = new URL('../../docs/settings.md', import.meta.url);
const commandPage = new URL('../../docs/cli.md', import.meta.url);

it.each([
  { page: settingsPage, part: 'settings', render: renderSettingsTable },
  { page: commandPage, part: 'exit codes', render: renderExitCodesTable },
])(
  'holds the table of $part as the programs know them (UPDATE_DOCS=1 writes it)',
  ({ page, part, render }) => {
    const text = readFileSync(page, 'utf8');
    const table = new RegExp(`(<!-- ${part} -->\\n)[\\s\\S]*?(<!-- /${part} -->)`);
    expect(text).toMatch(table);
    const wanted = text.replace(table, (_all, begin, end) => `${begin}${render()}\n${end}`);
    if (process.env['UPDATE_DOCS'] === '1') writeFileSync(page, wanted);
    else expect(text).toBe(wanted);
  },
);

it('names only scripts that exist, as CONTRIBUTING.md does', () => {
  const contributing = new URL('../../CONTRIBUTING.md', import.meta.url);
  const text = [readme, contributing].map((page) => readFileSync(page, 'utf8')).join('\n');
  const { scripts } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));
  const named = [...text.matchAll(/npm run (?:-s )?([a-z:-]+)/g)].map((match) => match[1] ?? '');
  expect(named.length).toBeGreaterThan(10);
  expect(named.filter((script) => !(script in scripts))).toEqual([]);
});

it('shows in its first screen what a program contains that a test runs', () => {
  const [, shown = ''] = /^```js\n([\s\S]*?)^```$/m.exec(readFileSync(readme, 'utf8')) ?? [];
  const program = readFileSync(new URL('../../examples/express.mjs', import.meta.url), 'utf8').split('\n');
  const lines = shown.split('\n').filter((line) => line !== '');
  expect(lines.length).toBeGreaterThan(4);
  expect(lines.filter((line) => !program.includes(line))).toEqual([]);
});
