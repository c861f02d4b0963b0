import { afterEach, expect, it, vi } from 'vitest';

afterEach(() => vi.restoreAllMocks());

it('loads without its word about the version of Node, and lets every other warning pass', async () => {
  const warned = vi.spyOn(console, 'warn').mockImplementation(() => undefined);
  const { warn } = console;
  const path = '../../../../control-plane/oauth/library.ts';
  const loading = [import(path), import(path)];
  while (console.warn === warn) await new Promise(setImmediate);
  console.warn('oidc-provider WARNING: something else', 7);
  const [{ library }] = await Promise.all(loading);
  expect(library.default).toBeTypeOf('function');
  expect(warned.mock.calls).toEqual([['oidc-provider WARNING: something else', 7]]);
  // Nothing of it stays behind.
  expect(console.warn).toBe(warn);
});
