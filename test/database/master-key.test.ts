import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { fileKeySource } from '../../control-plane/master-key/key-sources.ts';
import { checkMasterKey, MasterKeyError } from '../../control-plane/master-key/master-key.ts';
import { sealer } from '../../shared/crypto/seal.ts';
import { systemRandom } from '../../shared/runtime/random.ts';
import { useFolder } from '../support/base/use.ts';
import { useDatabase } from '../support/database/use-database.ts';

const random = systemRandom();

describe('the file of the master key', () => {
  const database = useDatabase();
  const folder = useFolder();
  beforeEach(async () => {
    await database.sql`DELETE FROM installation`;
  });

  const read = async (dataDir = folder.path) => fileKeySource(dataDir, { sql: database.sql, random }).read();
  const setUp = (masterKey: Uint8Array) =>
    database.sql.begin((tx) => checkMasterKey(tx, { sealer: sealer(masterKey), random }));

  it('makes a key on the first start and finds it on the next', async () => {
    const first = await read(join(folder.path, 'new'));
    expect(first).toHaveLength(32);
    await setUp(first);
    expect(await read(join(folder.path, 'new'))).toEqual(first);
    expect(statSync(join(folder.path, 'new', 'master-key')).mode & 0o777).toBe(0o600);
  });

  it('gives all that start at once the same key', async () => {
    const keys = await Promise.all(Array.from({ length: 8 }, () => read()));
    expect(new Set(keys.map((key) => Buffer.from(key).toString('hex'))).size).toBe(1);
  });

  it('makes no other key where the database was set up with one that is lost', async () => {
    await setUp(random.bytes(32));
    await expect(read()).rejects.toThrow(MasterKeyError);
    await expect(read()).rejects.toThrow('is missing');
    expect(existsSync(join(folder.path, 'master-key'))).toBe(false);
  });

  it.each(['', 'half a key', 'A'.repeat(42)])(
    'refuses a file that holds %j, and does not overwrite it',
    async (text) => {
      writeFileSync(join(folder.path, 'master-key'), text);
      await expect(read()).rejects.toThrow(MasterKeyError);
      expect(readFileSync(join(folder.path, 'master-key'), 'utf8')).toBe(text);
    },
  );
});
