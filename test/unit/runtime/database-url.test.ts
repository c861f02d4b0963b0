import { describe, expect, it } from 'vitest';
import { type DatabaseAddress, parseDatabaseUrl } from '../../../shared/runtime/database-url.ts';
import { Wrong } from '../../../shared/runtime/setting-values.ts';

const bare: DatabaseAddress = {
  ...{ socketFolder: null, hosts: [{ host: 'db', port: 5432 }], user: null, password: null, database: null },
  ...{ sslMode: 'prefer', sslRootCert: null, sessionKind: null },
};

describe('parseDatabaseUrl', () => {
  it.each<[string, Partial<DatabaseAddress>]>([
    ['postgres://db', {}],
    ['postgresql://db/', {}],
    ['postgres://db:6543/trust', { hosts: [{ host: 'db', port: 6543 }], database: 'trust' }],
    ['postgres://me:p%40ss%2Fw%25@db', { user: 'me', password: 'p@ss/w%' }],
    ['postgres://[::1]:5432/base', { hosts: [{ host: '::1', port: 5432 }], database: 'base' }],
    [
      'postgres://one:1,[::2]:2,three/base?target_session_attrs=primary',
      {
        hosts: [
          { host: 'one', port: 1 },
          { host: '::2', port: 2 },
          { host: 'three', port: 5432 },
        ],
        database: 'base',
        sessionKind: 'primary',
      },
    ],
    [
      'postgres:///base?host=/run/pg&user=me',
      { socketFolder: '/run/pg', hosts: [{ host: 'localhost', port: 5432 }], user: 'me', database: 'base' },
    ],
    [
      'postgres://db?sslmode=verify-full&sslrootcert=/etc/ca.pem',
      { sslMode: 'verify-full', sslRootCert: '/etc/ca.pem' },
    ],
    ['postgres://db?sslmode=verify-full&sslrootcert=system', { sslMode: 'verify-full' }],
  ])('reads %s', (text, expected) => {
    expect(parseDatabaseUrl(text)).toEqual({ ...bare, ...expected });
  });

  it.each([
    ['db:5432', 'begins with postgres://'],
    ['postgres://me:secret@word@db', 'percent-encoded'],
    ['postgres://me:sec#ret@db', 'percent-encoded'],
    ['postgres://me:secret%zz@db', 'write %25'],
    ['postgres://me:sec?ret@db', 'may have these parameters'],
    ['postgres://db?sslmod=require', 'may have these parameters'],
    ['postgres://db?sslmode=disable&sslmode=require', 'each once'],
    [
      'postgres://db?sslmode=verify-secret',
      'one of these as sslmode: disable, prefer, require, verify-ca, verify-full',
    ],
    ['postgres://db?sslmode=VERIFY-FULL', 'one of these as sslmode'],
    ['postgres://db?sslrootcert=system', 'sslmode=verify-full'],
    ['postgres://db?target_session_attrs=any-secret', 'one of these as target_session_attrs'],
    ['postgres://[::1/base', 'name hosts'],
    ['postgres://db:0', 'name hosts'],
    ['postgres://db:65536', 'name hosts'],
    ['postgres://db?host=other', 'folder of a Unix socket'],
  ])('refuses %s and repeats nothing of it', (text, reason) => {
    const wrong = parseDatabaseUrl(text);
    expect(wrong).toBeInstanceOf(Wrong);
    const { sentence } = wrong as Wrong;
    expect(sentence).toContain(reason);
    expect(sentence).not.toMatch(/secret|ret@|word@/);
  });
});
