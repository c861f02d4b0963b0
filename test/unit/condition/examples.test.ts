import { readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { readsOf } from '../../../shared/condition/reads-of.ts';
import { conditionExamples, type ExampleCase } from '../../../shared/model/condition-examples.ts';
import { evaluate, formOf } from './evaluate.ts';

const answer = (require: string, { request, claims, user, now }: ExampleCase) =>
  evaluate(require, {
    request,
    claims: claims ?? {},
    user: user ?? null,
    nowMs: Date.parse(now ?? '2026-06-10T10:00:00Z'),
  });

describe('the catalog of conditions', () => {
  it('has a dozen, each under a name of its own', () => {
    expect(new Set(conditionExamples.map(({ id }) => id)).size).toBe(conditionExamples.length);
    expect(conditionExamples).toHaveLength(12);
    for (const { id, message } of conditionExamples) {
      expect(id).toMatch(/^[a-z0-9-]{1,64}$/);
      expect(message.length).toBeLessThanOrEqual(200);
    }
  });

  it.each(conditionExamples.map((example) => [example.id, example] as const))(
    '%s holds for what it lets pass, and neither for what it stops nor for the bypass',
    (_id, { require, passes, fails, bypass }) => {
      expect(answer(require, passes)).toBe(true);
      expect(answer(require, fails)).toBe(false);
      expect(answer(require, bypass)).not.toBe(true);
      expect(readsOf(formOf(require)).length).toBeLessThanOrEqual(4);
    },
  );

  it.each([
    ['below-workspace', { path: '/workspace/%2e%2e/etc/passwd' }],
    ['below-workspace', { path: '/workspace/a\0.txt' }],
    ['below-workspace', { path: '/workspace/.ssh/authorized_keys' }],
    ['below-workspace', { path: '/workspace\n/etc' }],
    ['below-workspace', { path: ['/workspace/a'] }],
    ['read-only-sql', { query: 'select * into copy from orders' }],
    ['read-only-sql', { query: 'WITH x AS (DELETE FROM orders RETURNING *) SELECT * FROM x' }],
    ['read-only-sql', { query: 'select\n1;\nDROP table orders' }],
    ['at-most-100-rows', { limit: '5' }],
    ['at-most-100-rows', {}],
    ['own-recipients', { to: ['ada@example.com.evil.net'] }],
    ['own-recipients', { to: ['eve@evil.net,ada@example.com'] }],
    ['own-recipients', { to: 'ada@example.com' }],
    ['own-recipients', { to: [] }],
    ['own-recipients', { to: ['ada@example.com\n'] }],
    ['own-team', { team: ['blue'] }],
    ['known-hosts', { url: 'http://docs.example.com/' }],
    ['known-hosts', { url: 'https://docs.example.com.evil.net/' }],
    ['known-hosts', { url: 'https://docs.example.com:8443/' }],
    ['known-hosts', { url: 'https://docsXexample.com/' }],
    ['known-commands', { command: 'git diff --output=/etc/cron.d/x' }],
    ['known-commands', { command: 'git log\nrm -rf build' }],
    ['known-commands', { command: 'git diff $(id)' }],
    ['named-items', { ids: ['a1b2c3d4%'] }],
    ['named-items', { ids: { a1b2c3d4: 1, '*': 2 } }],
  ])('%s stops %j', (id, given) => {
    const example = conditionExamples.find((each) => each.id === id);
    expect(answer(example?.require ?? 'true', { what: '', request: { arguments: given } })).not.toBe(true);
  });
});

const page = new URL('../../../docs/conditions.md', import.meta.url);
const sentence = ({ what, request, claims, user, now }: ExampleCase): string => {
  const given = {
    ...request,
    ...(claims && { claims }),
    ...(user !== undefined && { user }),
    ...(now && { now }),
  };
  const shown = JSON.stringify(given);
  return `${what}${shown.length > 80 || shown === '{}' ? '' : `: \`${shown.replaceAll('|', '\\|')}\``}`;
};

/** The catalog as the page has it. */
function printedCatalog(): string {
  return conditionExamples
    .map((example) => {
      const { id, title, require, permissions, otherwise, message } = example;
      const code = require.split('\n').map((line) => `    ${line}`);
      return [
        `### ${title}`,
        '',
        ...code,
        '',
        `| \`${id}\`, for \`${permissions.join('`, `')}\`, otherwise \`${otherwise}\` | ${message} |`,
        '|---|---|',
        `| passes | ${sentence(example.passes)} |`,
        `| does not | ${sentence(example.fails)} |`,
        `| nor does | ${sentence(example.bypass)} |`,
        '',
      ].join('\n');
    })
    .join('\n');
}

it('stands in docs/conditions.md', () => {
  const before = readFileSync(page, 'utf8');
  const start = before.indexOf('### ');
  const expected = `${before.slice(0, start)}${printedCatalog()}`;
  if (process.env['UPDATE_DOCS'] === '1') writeFileSync(page, expected);
  else expect(before).toBe(expected);
});
