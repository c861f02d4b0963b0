import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { DebianPostgres } from '../../bench/harness/debian-postgres.ts';
import { connect } from '../../control-plane/storage/connect.ts';
import { databaseFailure } from '../../control-plane/storage/database-away.ts';
import { waitForDatabase } from '../../control-plane/storage/wait-for-database.ts';
import { silentLogger } from '../../shared/runtime/logger.ts';
import { StartError } from '../../shared/runtime/start-error.ts';
import { type TestCa, testCa } from '../support/base/certificates.ts';
import { temporaryFolder } from '../support/base/temporary-folder.ts';
import { testDebianPostgres } from '../support/run/debian-postgres.ts';
import { sharedService } from '../support/run/shared-services.ts';

/** Debian's PostgreSQL with certificates of a CA of its own. */
const folder = temporaryFolder();
let trusted: TestCa;
let stranger: TestCa;
/** Its certificate is for the IP addresses, that of the other one for the name. */
let byAddress: DebianPostgres;
let byName: DebianPostgres;
let plain: DebianPostgres;

beforeAll(async () => {
  await sharedService('openssl');
  trusted = testCa(folder.path, 'trusted');
  stranger = testCa(folder.path, 'stranger');
  const startWith = (...names: readonly string[]) => {
    const { cert, key } = trusted.issue(...names);
    const files = { 'server.crt': readFileSync(cert, 'utf8'), 'server.key': readFileSync(key, 'utf8') };
    const configuration = { ssl: 'on', listen_addresses: 'localhost,::1' };
    return testDebianPostgres({ configuration, files });
  };
  [byAddress, byName, plain] = await Promise.all([
    startWith('IP:127.0.0.1', 'IP:::1'),
    startWith('DNS:localhost'),
    testDebianPostgres(),
  ]);
});
afterAll(async () => {
  await Promise.all([byAddress, byName, plain].map((server) => server?.stop()));
  folder.remove();
});

function urlOf(server: DebianPostgres, change: { readonly host?: string; readonly query: string }): string {
  const url = new URL(server.url);
  if (change.host !== undefined) url.hostname = change.host;
  url.search = change.query;
  return url.href;
}

/** Whether the connection is under TLS, as the server sees it; or the error. */
async function isEncrypted(url: string): Promise<boolean> {
  const sql = connect({ url, connectionsMax: 1 });
  try {
    const [row] = await sql<{ ssl: boolean }[]>`SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()`;
    return row?.ssl ?? false;
  } finally {
    await sql.end({ timeout: 1 });
  }
}

const root = () => `&sslrootcert=${encodeURIComponent(trusted.file)}`;
const otherRoot = () => `&sslrootcert=${encodeURIComponent(stranger.file)}`;

describe('sslmode', () => {
  it.each<[string, string, () => DebianPostgres, string, () => string, boolean]>([
    ['without sslmode: TLS where there is some', '127.0.0.1', () => byAddress, '', () => '', true],
    ['without sslmode: plain where there is none', '127.0.0.1', () => plain, '', () => '', false],
    ['disable', '127.0.0.1', () => byAddress, '?sslmode=disable', () => '', false],
    ['prefer, over IPv6', '[::1]', () => byAddress, '?sslmode=prefer', () => '', true],
    ['require, of an unknown authority', '127.0.0.1', () => byAddress, '?sslmode=require', () => '', true],
    ['verify-ca, for another name', '127.0.0.1', () => byName, '?sslmode=verify-ca', root, true],
    ['verify-full, of an IPv6 address', '[::1]', () => byAddress, '?sslmode=verify-full', root, true],
    ['verify-full, of a name', 'localhost', () => byName, '?sslmode=verify-full', root, true],
  ])('connects: %s', async (_, host, server, query, authorityOf, encrypted) => {
    expect(await isEncrypted(urlOf(server(), { host, query: `${query}${authorityOf()}` }))).toBe(encrypted);
  });

  it.each<[string, string, () => DebianPostgres, string, () => string, RegExp]>([
    [
      'require, without TLS',
      '127.0.0.1',
      () => plain,
      '?sslmode=require',
      () => '',
      /offers no TLS.*sslmode=require/,
    ],
    [
      'require, of another authority',
      '127.0.0.1',
      () => byAddress,
      '?sslmode=require',
      otherRoot,
      /not to be trusted/,
    ],
    [
      'verify-ca, of an authority that nobody named',
      '127.0.0.1',
      () => byAddress,
      '?sslmode=verify-ca',
      () => '',
      /sslrootcert/,
    ],
    // With the driver alone this is proved by the name "localhost".
    [
      'verify-full, of an address by a name',
      '127.0.0.1',
      () => byName,
      '?sslmode=verify-full',
      root,
      /127\.0\.0\.1/,
    ],
  ])('ends the start: %s', async (_, host, server, query, authorityOf, reason) => {
    const url = urlOf(server(), { host, query: `${query}${authorityOf()}` });
    const sql = connect({ url, connectionsMax: 1 });
    try {
      const signal = new AbortController().signal;
      const waiting = waitForDatabase(sql, { url, logger: silentLogger, signal });
      await expect(waiting).rejects.toThrow(StartError);
      await expect(waiting).rejects.toThrow(reason);
      await expect(waiting).rejects.not.toThrow(new URL(url).password);
      // To those who ask later it is away.
      expect(databaseFailure(await sql`SELECT 1`.catch((error: unknown) => error))).toBe(
        'service_unavailable',
      );
    } finally {
      await sql.end({ timeout: 1 });
    }
  });

  it('names a file of certificates that is not there, or holds none', () => {
    writeFileSync(join(folder.path, 'empty.pem'), 'nothing');
    const sslrootcert = (name: string) =>
      connect({ url: `postgres://db?sslmode=verify-full&sslrootcert=${join(folder.path, name)}` });
    expect(() => sslrootcert('missing.pem')).toThrow(/sslrootcert .* cannot be read/);
    expect(() => sslrootcert('empty.pem')).toThrow(/sslrootcert .* holds no certificate/);
  });
});
