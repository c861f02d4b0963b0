import { describe, expect, it } from 'vitest';
import { readRedisUrl } from '../../../shared/runtime/redis-url.ts';
import { Wrong } from '../../../shared/runtime/setting-values.ts';

describe('REDIS_URL', () => {
  const plain = { port: 6_379, username: null, password: null, db: 0, tls: null };

  it.each([
    ['redis://cache', { ...plain, host: 'cache' }],
    ['redis://cache:6380/3', { ...plain, host: 'cache', port: 6_380, db: 3 }],
    ['redis://[::1]:6379', { ...plain, host: '::1' }],
    ['redis://:p%40ss@cache', { ...plain, host: 'cache', password: 'p@ss' }],
    [
      'redis://us%65r:p:w@cache?sslmode=disable',
      { ...plain, host: 'cache', username: 'user', password: 'p:w' },
    ],
    ['rediss://cache', { ...plain, host: 'cache', tls: {} }],
    ['rediss://cache?sslmode=verify-full', { ...plain, host: 'cache', tls: {} }],
    ['rediss://cache?sslmode=verify-full&sslrootcert=system', { ...plain, host: 'cache', tls: {} }],
    ['rediss://cache?sslmode=require', { ...plain, host: 'cache', tls: { rejectUnauthorized: false } }],
  ])('reads %s', (url, address) => {
    expect(readRedisUrl(url)).toEqual(address);
  });

  it.each([
    ['localhost:6379', /begins with redis:\/\/ or rediss:\/\//],
    ['redis://cache/one', /number of a database/],
    ['redis://cache?family=6', /takes the parameters sslmode and sslrootcert/],
    ['rediss://cache?sslmode=require&sslmode=verify-ca', /each once/],
    ['rediss://cache?sslmode=prefer', /one of require, verify-ca, verify-full/],
    ['redis://cache?sslmode=verify-full', /begin it with rediss/],
    ['rediss://cache?sslrootcert=/nowhere/ca.pem', /\/nowhere\/ca.pem .* cannot be read \(ENOENT\)/],
    ['rediss://cache?sslrootcert=/dev/null', /holds no certificate/],
    ['rediss://user:50%@cache', /percent-encoded/],
  ])('refuses %s', (url, sentence) => {
    const read = readRedisUrl(url);
    expect(read).toBeInstanceOf(Wrong);
    expect((read as Wrong).sentence).toMatch(sentence);
    expect((read as Wrong).sentence).not.toContain('50%');
  });
});
