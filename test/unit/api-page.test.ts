import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { Document } from '../../control-plane/openapi/document.ts';
import { operationsOf } from '../support/data/document.ts';

const root = new URL('../../', import.meta.url);
const page = readFileSync(new URL('docs/api.md', root), 'utf8');
const document: Document = JSON.parse(readFileSync(new URL('docs/openapi.json', root), 'utf8'));

/** The endpoints that the contract begins with, line by line. */
const specified = [
  ...['GET /discover', 'GET /gates/{gate_id}/catalog', 'POST /gates/{gate_id}/check', 'POST /enforce'],
  ...['POST /passports', 'GET /passports', 'GET /passports/:id', 'GET /passports/:id/verify'],
  ...['POST /passports/:id/revoke', 'POST /gates', 'GET /gates', 'GET /gates/:id', 'PUT /gates/:id'],
  ...['DELETE /gates/:id', 'POST /gates/:id/test', 'GET /attestations', 'GET /attestations/export'],
  ...['GET /attestations/:id', 'POST /issuers', 'GET /issuers', 'GET /issuers/:id', 'GET /templates'],
  ...['GET /templates/:id', 'POST /templates'],
];

const rows = [...page.matchAll(/^\| `([A-Z]+ [^`]+)`( \(no `\/v1`\))?[^|]* \| (.*?) \| (.+?) \|$/gm)].map(
  ([, endpoint = '', outside, tests = '', works = '']) => ({
    endpoint,
    /** As the document names it. */
    key: `${endpoint.replace(' /', outside === undefined ? ' /v1/' : ' /')}`
      .replaceAll(/:id|\{gate_id\}/g, '{id}')
      .replaceAll(/:([a-z_]+)/g, '{$1}'),
    tests: [...tests.matchAll(/`([^`]+)`/g)].map((match) => match[1] ?? ''),
    works,
  }),
);
const working = rows.filter(({ works }) => works.startsWith('yes'));

describe('docs/api.md', () => {
  it('has every line of the endpoint tables, and all of them work', () => {
    const shown = new Set(working.map(({ endpoint }) => endpoint));
    expect(specified.filter((endpoint) => !shown.has(endpoint))).toEqual([]);
    expect(shown).toContain('POST /api/passports');
  });

  it('shows exactly the operations of the document', () => {
    const documented = operationsOf(document).map(({ key }) => key);
    // The tools describe themselves, by `tools/list`.
    const inDocument = working.map(({ key }) => key).filter((key) => key !== 'POST {mcp_url}');
    expect(inDocument.toSorted()).toEqual(documented.toSorted());
  });

  it('names tests that exist and that call the endpoint', () => {
    for (const { endpoint, tests } of working) {
      expect(tests.length, endpoint).toBeGreaterThan(0);
      // The collection, `/passports`, or the last word of a path, `/verify`.
      const word = endpoint.split('/').findLast((part) => /^[a-z.-]+$/.test(part)) ?? '';
      for (const path of tests) {
        expect(existsSync(new URL(path, root)), path).toBe(true);
        expect(readFileSync(new URL(path, root), 'utf8'), `${path} for ${endpoint}`).toContain(word);
      }
    }
  });
});
