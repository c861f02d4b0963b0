import { existsSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { ensureFirstAccount, ensureSidecarKey } from '../../control-plane/accounts/ensure-first-account.ts';
import { findPresentedKey } from '../../control-plane/api-keys/api-key-store.ts';
import { loadSigningKeys } from '../../control-plane/signing/load-signing-keys.ts';
import type { SigningKeys } from '../../control-plane/signing/signing-keys.ts';
import { inProcessBus } from '../../shared/bus/in-process.ts';
import { hashApiKey, makeApiKey, parseApiKey } from '../../shared/crypto/api-key.ts';
import { chooseEd25519 } from '../../shared/crypto/choose-ed25519.ts';
import { sealer } from '../../shared/crypto/seal.ts';
import { systemClock } from '../../shared/runtime/clock.ts';
import { silentLogger } from '../../shared/runtime/logger.ts';
import { systemRandom } from '../../shared/runtime/random.ts';
import { useFolder } from '../support/base/use.ts';
import { useDatabase } from '../support/database/use-database.ts';

const random = systemRandom();
const givenKey = `at_live_${'k'.repeat(40)}`;

describe('the first account', () => {
  const database = useDatabase();
  let signingKeys: SigningKeys;
  const folder = useFolder();
  let warnings: string[];
  beforeAll(async () => {
    signingKeys = await loadSigningKeys({
      sql: database.sql,
      clock: systemClock,
      random,
      ed25519: chooseEd25519(),
      sealer: sealer(Buffer.alloc(32)),
    });
  });
  beforeEach(() => {
    warnings = [];
  });
  afterEach(async () => {
    for (const table of ['changes', 'feed_items', 'api_keys', 'accounts'])
      await database.sql.unsafe(`DELETE FROM ${table}`);
    await database.sql`DELETE FROM feeds WHERE feed_id <> 'global'`;
  });

  const deps = () => ({
    sql: database.sql,
    clock: systemClock,
    random,
    bus: inProcessBus(silentLogger),
    signingKeys,
    logger: { ...silentLogger, warn: (_: object, message: string) => void warnings.push(message) },
  });
  const ensure = (adminApiKey: string | null = null) =>
    ensureFirstAccount(deps(), { dataDir: folder.path, adminApiKey });
  const keyFile = () => join(folder.path, 'admin-api-key');
  const keyInFile = () => readFileSync(keyFile(), 'utf8').trim();
  const find = (key: string) => findPresentedKey(database.sql, hashApiKey(key));
  const count = async (table: string) =>
    (await database.sql.unsafe<{ n: number }[]>(`SELECT count(*) AS n FROM ${table}`))[0]?.n;

  it('is made with its feed and a key in a file that only its owner may read', async () => {
    expect(await ensure()).toEqual({ adminKeyFile: keyFile() });
    expect(statSync(keyFile()).mode & 0o777).toBe(0o600);
    expect(parseApiKey(keyInFile())).toEqual({ mode: 'live' });
    const found = await find(keyInFile());
    expect(found).toMatchObject({
      scopes: ['admin:*'],
      mode: 'live',
      isOperatorAccount: true,
      expiresAtMs: null,
    });
    expect(await database.sql`SELECT plan, status, requests_per_minute FROM accounts`).toEqual([
      { plan: 'enterprise', status: 'active', requests_per_minute: null },
    ]);
    expect(await database.sql`SELECT revision FROM feeds WHERE feed_id = ${found?.accountId ?? ''}`).toEqual([
      { revision: 1 },
    ]);
  });

  it('stays the same, with the same key, at the next start', async () => {
    await ensure();
    const key = keyInFile();
    expect(await ensure()).toEqual({ adminKeyFile: keyFile() });
    expect(keyInFile()).toBe(key);
    expect([await count('accounts'), await count('api_keys')]).toEqual([1, 1]);
  });

  it('takes ADMIN_API_KEY and writes no file', async () => {
    expect(await ensure(givenKey)).toEqual({ adminKeyFile: null });
    expect(existsSync(keyFile())).toBe(false);
    expect(await find(givenKey)).toMatchObject({ scopes: ['admin:*'], mode: 'live' });
  });

  it('lets an ADMIN_API_KEY that begins with at_test_ into the test world', async () => {
    const key = `at_test_${'k'.repeat(40)}`;
    await ensure(key);
    expect(await find(key)).toMatchObject({ mode: 'test' });
  });

  it('says at each start that there is no live admin key, until there is one', async () => {
    const key = `at_test_${'k'.repeat(40)}`;
    for (const given of [key, key, null, givenKey, key, null]) await ensure(given);
    const warning = expect.stringMatching(
      /only admin keys are test keys: .* start once with an ADMIN_API_KEY .* at_live_$/,
    );
    expect(warnings).toEqual([warning, warning, warning]);
  });

  it('adds another ADMIN_API_KEY later on, beside the first', async () => {
    await ensure();
    await ensure(givenKey);
    expect(await find(givenKey)).not.toBeNull();
    expect(await find(keyInFile())).not.toBeNull();
    expect(await count('accounts')).toBe(1);
  });

  it('creates no key if one exists already', async () => {
    await ensure(givenKey);
    expect(await ensure()).toEqual({ adminKeyFile: null });
    expect(existsSync(keyFile())).toBe(false);
    expect(await count('api_keys')).toBe(1);
  });

  it('makes a key where the last usable one was lost in a crash between file and database', async () => {
    // What such a crash leaves behind: the file, and nothing in the database.
    const key = makeApiKey('live', random.bytes(32));
    writeFileSync(keyFile(), `${key}\n`);
    await ensure();
    expect(keyInFile()).toBe(key);
    expect(await find(key)).toMatchObject({ scopes: ['admin:*'] });
  });

  it('makes the key of a file known also where the account is there without it', async () => {
    await ensure(givenKey);
    const key = makeApiKey('live', random.bytes(32));
    writeFileSync(keyFile(), key);
    await ensure();
    expect(await find(key)).toMatchObject({ isOperatorAccount: true });
  });

  it('does not bring a deleted key back, and says so', async () => {
    await ensure();
    await database.sql`UPDATE api_keys SET revoked_at_ms = 1`;
    await ensure();
    expect(await find(keyInFile())).toBeNull();
    expect(warnings).toEqual(['this admin key was deleted or has expired and is not accepted']);
  });

  it('makes a new key where every old one is unusable and the file is gone', async () => {
    await ensure();
    const old = keyInFile();
    await database.sql`UPDATE api_keys SET expires_at_ms = 1`;
    rmSync(keyFile());
    await ensure();
    expect(keyInFile()).not.toBe(old);
    expect(await find(keyInFile())).not.toBeNull();
  });

  it.each(['', 'not a key', `${makeApiKey('live', random.bytes(32)).slice(0, -1)}!`])(
    'refuses a key file that holds %j, naming it',
    async (text) => {
      writeFileSync(keyFile(), text);
      await expect(ensure()).rejects.toThrow(`${keyFile()} contains no API key`);
      expect(await count('accounts')).toBe(0);
    },
  );

  it('is one account with one key when replicas start at once', async () => {
    await Promise.all([ensure(givenKey), ensure(givenKey), ensure(givenKey)]);
    expect([await count('accounts'), await count('api_keys')]).toEqual([1, 1]);
    // The account's feed has the one change, without a hole.
    expect(await database.sql`SELECT revision FROM changes`).toEqual([{ revision: 1 }]);
  });

  describe('and the key of the sidecar beside it', () => {
    it('connects a sidecar and grants nothing else', async () => {
      await ensure(givenKey);
      const key = await ensureSidecarKey(deps(), folder.path);
      expect(await find(key)).toMatchObject({ scopes: ['sidecars:connect'], isOperatorAccount: true });
      expect(await ensureSidecarKey(deps(), folder.path)).toBe(key);
      expect(statSync(join(folder.path, 'sidecar-api-key')).mode & 0o777).toBe(0o600);
    });

    it('is live also where the first key is a test key', async () => {
      await ensure(`at_test_${'k'.repeat(40)}`);
      expect(await find(await ensureSidecarKey(deps(), folder.path))).toMatchObject({ mode: 'live' });
      writeFileSync(join(folder.path, 'sidecar-api-key'), `at_test_${'k'.repeat(40)}`);
      await expect(ensureSidecarKey(deps(), folder.path)).rejects.toThrow('contains a test key');
    });

    it('is replaced when it was deleted', async () => {
      const key = await ensureSidecarKey(deps(), folder.path);
      await database.sql`UPDATE api_keys SET revoked_at_ms = 1`;
      const next = await ensureSidecarKey(deps(), folder.path);
      expect(next).not.toBe(key);
      expect(await find(next)).not.toBeNull();
    });
  });
});
