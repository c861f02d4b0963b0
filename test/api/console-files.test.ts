import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { afterAll, describe, expect, it } from 'vitest';
import { readConsole } from '../../control-plane/console/served-file.ts';
import { temporaryFolder } from '../support/base/temporary-folder.ts';
import { startOwnApi } from '../support/service/api.ts';
import { useApi } from '../support/service/use-api.ts';

/** What stands for a build: the real one is served in test/console. */
const page = '<!doctype html><title>Console</title>';
const script = 'console.log("a");'.repeat(50);

const folder = temporaryFolder();
const inFolder = (name: string) => join(folder.path, name);
const api = useApi(async () => {
  mkdirSync(inFolder('dist/assets'), { recursive: true });
  writeFileSync(inFolder('secret.js'), 'outside');
  writeFileSync(inFolder('dist/index.html'), page);
  writeFileSync(inFolder('dist/manifest.json'), '{}');
  writeFileSync(inFolder('dist/assets/main-abc.js'), script);
  return startOwnApi({ consoleFiles: await readConsole(inFolder('dist')) });
});
afterAll(() => folder.remove());

const get = (url: string, headers: Record<string, string> = {}) =>
  api.app.inject({ method: 'GET', url, headers });

describe('the files of the console', () => {
  it('are one page for every address, never kept without asking', async () => {
    for (const url of ['/console/', '/console/gates/gate_1?tab=policy', '/console/a/b/c']) {
      const answer = await get(url);
      expect(answer.statusCode).toBe(200);
      expect(answer.body).toBe(page);
      expect(answer.headers).toMatchObject({
        'content-type': 'text/html; charset=utf-8',
        'cache-control': 'no-cache',
      });
    }
    expect((await get('/console')).headers.location).toBe('/console/');
  });

  it('cannot be framed, run nothing inline, and load nothing from elsewhere', async () => {
    const { headers } = await get('/console/');
    const policy = String(headers['content-security-policy']);
    expect(policy).not.toContain('unsafe');
    expect(policy).not.toMatch(/https?:|\*/);
    for (const rule of [
      "default-src 'none'",
      "script-src 'self'",
      "frame-ancestors 'none'",
      "base-uri 'none'",
      "form-action 'none'",
      "require-trusted-types-for 'script'",
    ]) {
      expect(policy.split('; ')).toContain(rule);
    }
    expect(headers).toMatchObject({
      ...{ 'x-content-type-options': 'nosniff', 'x-frame-options': 'DENY', 'referrer-policy': 'no-referrer' },
    });
  });

  it('are kept for ever where their name contains their hash, and sent compressed', async () => {
    const plain = await get('/console/assets/main-abc.js');
    expect(plain.headers['cache-control']).toBe('public, max-age=31536000, immutable');
    expect(plain.body).toBe(script);
    const packed = await get('/console/assets/main-abc.js', { 'accept-encoding': 'br, gzip' });
    expect(packed.headers['content-encoding']).toBe('gzip');
    expect(gunzipSync(packed.rawPayload).toString()).toBe(script);
    expect(packed.rawPayload.length).toBeLessThan(script.length);
    const known = await get('/console/', { 'if-none-match': String((await get('/console/')).headers.etag) });
    expect([known.statusCode, known.body]).toEqual([304, '']);
  });

  it.each([
    '/console/../secret.js',
    '/console/..%2fsecret.js',
    '/console/assets/../../secret.js',
    '/console/assets/..%5c..%5csecret.js',
    '/console/manifest.json',
    '/console/assets/missing.js',
  ])('are the only ones: %s', async (url) => {
    const answer = await get(url);
    expect(answer.body).not.toContain('outside');
    expect(answer.statusCode).toBe(404);
  });

  it('say how to build them where they are missing', async () => {
    expect((await readConsole(inFolder('nowhere'))).size).toBe(0);
  });
});
