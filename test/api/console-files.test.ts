import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readConsole } from '../../control-plane/console/served-file.ts';
import { type Api, startApi } from '../support/api.ts';

/** What stands for a build: the real one is served in test/console. */
const page = '<!doctype html><title>Console</title>';
const script = 'console.log("a");'.repeat(50);

let folder: string;
let api: Api;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'agent-trust-test-'));
  await mkdir(join(folder, 'dist/assets'), { recursive: true });
  await writeFile(join(folder, 'secret.js'), 'outside');
  await writeFile(join(folder, 'dist/index.html'), page);
  await writeFile(join(folder, 'dist/manifest.json'), '{}');
  await writeFile(join(folder, 'dist/assets/main-abc.js'), script);
  api = await startApi({ consoleFiles: await readConsole(join(folder, 'dist')) });
});
afterAll(async () => {
  await api.close();
  await rm(folder, { recursive: true, force: true });
});

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
      'x-content-type-options': 'nosniff',
      'x-frame-options': 'DENY',
      'referrer-policy': 'no-referrer',
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
    '/console/%2e%2e/secret.js',
    '/console/assets/../../secret.js',
    '/console/assets/..%5c..%5csecret.js',
    '/console//etc/passwd.js',
    '/console/manifest.json',
    '/console/assets/missing.js',
  ])('are the only ones: %s', async (url) => {
    const answer = await get(url);
    expect(answer.body).not.toContain('outside');
    expect(answer.statusCode).toBe(404);
  });

  it('say how to build them where they are missing', async () => {
    expect((await readConsole(join(folder, 'nowhere'))).size).toBe(0);
  });
});
