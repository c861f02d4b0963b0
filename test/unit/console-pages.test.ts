import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { buildGuide } from '../../console/guide/build-guide.ts';
import { curlOf, pageSources } from '../../console/src/page-sources.ts';

const router = readFileSync(new URL('../../console/src/router.tsx', import.meta.url), 'utf8');
/** Those behind the login. */
const paths = [...router.matchAll(/\bpage\('([^']+)'/g)].map(([, path = '']) => path);
const guide = buildGuide();

describe('each page of the console', () => {
  it('has a request of the API and a page of the guide in page-sources.ts', () => {
    expect(paths.length).toBeGreaterThan(20);
    expect(Object.keys(pageSources).toSorted()).toEqual(paths.toSorted());
  });

  it.each(Object.entries(pageSources))(
    '%s leads to a page and anchor of the guide',
    (_path, { guide: at }) => {
      const [name = '', anchor] = at.split('#');
      const html = guide.get(`${name}.html`);
      expect(html, name).toBeDefined();
      if (anchor !== undefined) expect(html).toContain(` id="${anchor}"`);
    },
  );

  it.each(Object.entries(pageSources))(
    '%s makes no command of hostile ids and filters',
    (_path, { request }) => {
      const hostile = `'"$(id)\`id\`\\;&|<>\n*?!{}`;
      const search = new Proxy({}, { get: () => hostile });
      const path = request({ id: hostile, search });
      if (path === null) return;
      // Within single quotes a shell reads nothing but the quote.
      expect(path).toMatch(/^\/[\w/.%?=&+*~-]*$/);
      expect(curlOf('http://127.0.0.1:8080', path)).toBe(
        `curl -sS 'http://127.0.0.1:8080${path}' -H "Authorization: Bearer $AGENT_TRUST_KEY"`,
      );
    },
  );
});
