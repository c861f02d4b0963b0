import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { buildGuide } from '../../console/guide/build-guide.ts';
import { renderMarkdown } from '../../console/guide/render-markdown.ts';
import { readConsole } from '../../control-plane/console/served-file.ts';
import { type Api, startOwnApi } from '../support/service/api.ts';
import { expectError } from '../support/service/expect-error.ts';

/** All of it compressed, as a part of a package of 13 MB. */
const compressedBytesMax = 800_000;

let folder: string;
let api: Api;
const guide = buildGuide();

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'agent-trust-test-'));
  for (const [name, text] of guide) {
    const path = join(folder, 'guide', name);
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, text);
  }
  await writeFile(join(folder, 'index.html'), 'the console');
  await writeFile(join(folder, 'icon.svg'), '<svg xmlns="http://www.w3.org/2000/svg"/>');
  api = await startOwnApi({ consoleFiles: await readConsole(folder) });
});
afterAll(async () => {
  await api.close();
  await rm(folder, { recursive: true, force: true });
});

const get = (url: string, headers: Record<string, string> = {}) =>
  api.app.inject({ method: 'GET', url, headers });
const pageOf = async (url: string): Promise<string> => {
  const answer = await get(url);
  expect(answer.statusCode, url).toBe(200);
  return answer.body;
};
const linksOf = (html: string): readonly string[] =>
  [...html.matchAll(/(?:href|src)="([^"]+)"/g)].map(([, link = '']) => link.replaceAll('&amp;', '&'));

describe('the guide', () => {
  it('leads from its first page to every page, without a dead link or anchor', async () => {
    const seen = new Map<string, string>();
    const waiting = ['/docs/guide'];
    const anchors: { from: string; to: string; anchor: string }[] = [];
    for (let url = waiting.pop(); url !== undefined; url = waiting.pop()) {
      if (seen.has(url)) continue;
      const html = await pageOf(url);
      seen.set(url, html);
      if (!html.startsWith('<!doctype html>') || !url.startsWith('/docs/guide')) continue;
      for (const link of linksOf(html)) {
        if (/^https?:/.test(link)) continue;
        const { pathname, hash } = new URL(link, `http://service${url}`);
        waiting.push(pathname);
        if (hash !== '') anchors.push({ from: url, to: pathname, anchor: decodeURIComponent(hash.slice(1)) });
      }
    }
    const pages = [...guide.keys()].filter((name) => name.endsWith('.html'));
    const reached = [...seen.keys()].filter(
      (url) => url.startsWith('/docs/guide') && !url.includes('/files/'),
    );
    expect(pages.length).toBeGreaterThan(80);
    expect(reached.filter((url) => !url.endsWith('.css'))).toHaveLength(pages.length);
    expect(anchors.length).toBeGreaterThan(200);
    expect(anchors.filter(({ to, anchor }) => !seen.get(to)?.includes(` id="${anchor}"`))).toEqual([]);
  });

  it('has the text of the repository', async () => {
    const contract = await pageOf('/docs/guide/contract');
    expect(contract).toMatch(/<h1 id="[^"]+">/);
    expect(contract).toContain('aria-current="page"');
    expect(await pageOf('/docs/guide/')).toBe(await pageOf('/docs/guide'));
    expect(await pageOf('/docs/guide/operate/hour/')).toBe(await pageOf('/docs/guide/operate/hour'));
    const example = await get('/docs/guide/files/deploy/proxies/nginx.conf');
    expect(example.headers['content-type']).toBe('text/plain; charset=utf-8');
    expect(example.body).toContain('gate_REPLACE_ME');
  });

  it('runs nothing, loads nothing from elsewhere, and is read anew only where it changed', async () => {
    const { headers } = await get('/docs/guide/keys');
    const policy = String(headers['content-security-policy']).split('; ');
    expect(policy).toContain("default-src 'none'");
    expect(policy).toContain("frame-ancestors 'none'");
    expect(policy.join()).not.toMatch(/script-src|unsafe|https?:|\*/);
    expect(headers).toMatchObject({ 'x-content-type-options': 'nosniff', 'cache-control': 'no-cache' });
    for (const [name, text] of guide)
      if (name.endsWith('.html')) expect(text).not.toMatch(/<script|<[^>]*\s(?:style|on\w+)=/);
    const known = await get('/docs/guide/keys', { 'if-none-match': String(headers.etag) });
    expect([known.statusCode, known.body]).toEqual([304, '']);
    const packed = await get('/docs/guide/keys', { 'accept-encoding': 'gzip' });
    expect(gunzipSync(packed.rawPayload).toString()).toBe(await pageOf('/docs/guide/keys'));
  });

  it('leaves the pages of the API where they were', async () => {
    expect((await get('/docs/')).body).toContain('swagger-ui');
    expect((await get('/docs/static/swagger-ui.css')).statusCode).toBe(200);
  });

  it.each([
    '/docs/guide/no-such-page',
    '/docs/guide/files/package.json',
    '/docs/guide/files/../../secret',
    '/docs/guide/%2e%2e/index',
    '/docs/guide/__proto__',
    `/docs/guide/${'a/'.repeat(500)}`,
  ])('is nothing else: %s', async (url) => {
    const { statusCode: status, headers, body } = await get(url);
    expectError({ status, headers, body: JSON.parse(body) }, 'route_not_found');
  });

  it('is searched without a script, in sections, by all words in any case', async () => {
    const found = async (query: string) => {
      const html = await pageOf(`/docs/guide/search?${new URLSearchParams({ q: query })}`);
      const main = html.slice(html.indexOf('<article>'), html.indexOf('</article>'));
      return linksOf(main);
    };
    expect(await found('DELEGATE evaluation')).toContain(
      '/docs/guide/integrations/authzen#subjects-without-their-passports',
    );
    for (const link of await found('revoke')) {
      const [path = '', anchor = ''] = link.split('#');
      expect(await pageOf(path)).toContain(anchor === '' ? '<article>' : ` id="${anchor}"`);
    }
    expect(await found('no-such-word-anywhere')).toEqual([]);
    expect(await found(' ')).toEqual([]);
    expect((await found('the')).length).toBeLessThanOrEqual(50);
    expect(await pageOf('/docs/guide')).toContain('<form action="/docs/guide/search" role="search">');
  });

  it.each([
    '<script>alert(1)</script>',
    '"><img src=x onerror=alert(1)>',
    '$& <!-- results --> $1',
    'x'.repeat(5_000),
  ])('shows what was searched for as text: %s', async (query) => {
    const answer = await get(`/docs/guide/search?${new URLSearchParams({ q: query })}`);
    expect(answer.statusCode).toBe(200);
    expect(answer.body).not.toMatch(/<script|<img/);
    expect(answer.headers['content-security-policy']).toContain("default-src 'none'");
    for (const odd of ['?q=a&q=b', '?q[x]=y', '', '?other=1'])
      expect((await get(`/docs/guide/search${odd}`)).statusCode).toBe(200);
  });

  it('is served at its own addresses alone', async () => {
    expect((await get('/console/guide/keys.html')).statusCode).toBe(404);
  });

  it(`adds less than ${compressedBytesMax} bytes to the package`, async () => {
    let bytes = 0;
    for (const { gzipped } of (await readConsole(join(folder, 'guide'))).values()) bytes += gzipped.length;
    expect(bytes).toBeGreaterThan(100_000);
    expect(bytes).toBeLessThan(compressedBytesMax);
  });
});

describe('a page of the guide', () => {
  const render = (text: string) => renderMarkdown(text, (link) => link);

  it('cannot have HTML of its own, an image, or no title', () => {
    expect(() => render('# A\n\n<div>b</div>')).toThrow('HTML in a page');
    expect(() => render('# A\n\n![b](c.png)')).toThrow('no images');
    expect(() => render('text')).toThrow('begins with its title');
    expect(render('# A\n\n<!-- a mark -->\n\nb').html).not.toContain('mark');
  });
});
