import { beforeEach, describe, expect, it } from 'vitest';
import type { Database } from '../../control-plane/base/database.ts';
import { MasterKeyError } from '../../control-plane/master-key/master-key.ts';
import { loadSigningKeys } from '../../control-plane/signing/load-signing-keys.ts';
import { makeSigningKey } from '../../control-plane/signing/sealed-signing-key.ts';
import { insertSigningKey } from '../../control-plane/signing/signing-key-store.ts';
import { decodeBase64url } from '../../shared/crypto/base64url.ts';
import { chooseEd25519 } from '../../shared/crypto/choose-ed25519.ts';
import { keyset } from '../../shared/crypto/keyset.ts';
import { sealer } from '../../shared/crypto/seal.ts';
import { must } from '../../shared/errors/assert.ts';
import { keyPurposes } from '../../shared/model/signing-key.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { systemClock } from '../../shared/runtime/clock.ts';
import { systemRandom } from '../../shared/runtime/random.ts';
import { useDatabase } from '../support/database/use-database.ts';

const ed25519 = chooseEd25519();
const masterKey = Buffer.alloc(32, 1);
const startedMs = 1_790_000_000_000 as UnixMillis;

describe('loadSigningKeys', () => {
  const database = useDatabase();
  let nowMs: UnixMillis;
  beforeEach(async () => {
    await database.sql`DELETE FROM changes`;
    await database.sql`DELETE FROM signing_keys`;
    await database.sql`DELETE FROM log_keys`;
    await database.sql`DELETE FROM installation WHERE starts_with(name, 'master_key_check')`;
    nowMs = startedMs;
  });

  const load = (key: Uint8Array = masterKey, sql: Database = database.sql) =>
    loadSigningKeys({
      sql,
      clock: { ...systemClock, now: () => nowMs },
      random: systemRandom(),
      ed25519,
      sealer: sealer(key),
    });

  it('makes one key for each purpose, whose signatures its public half verifies', async () => {
    const keys = await load();
    expect(
      keys
        .all()
        .map((key) => key.purpose)
        .sort(),
    ).toEqual([...keyPurposes].sort());
    const set = keyset(ed25519, keys.all());
    for (const purpose of keyPurposes) {
      const { kid, sign, signer } = keys.current(purpose);
      const entry = must(set.find(purpose, kid), 'it is in the set');
      const message = Buffer.from('message');
      expect(entry.verify(message, must(decodeBase64url(sign('message')), 'base64url'))).toBe(true);
      expect(entry.verify(message, signer.sign(message))).toBe(true);
      expect(entry.verify(Buffer.from('other'), signer.sign(message))).toBe(false);
    }
  });

  it('gives replicas that start at once the same keys', async () => {
    const loaded = await Promise.all([load(), load(), load(), load()]);
    expect(loaded[0]?.all()).toHaveLength(keyPurposes.length);
    for (const keys of loaded) expect(keys.all()).toEqual(loaded[0]?.all());
  });

  it('stores no private half in the open', async () => {
    await load();
    const rows = await database.sql<{ sealed: string; public_key: string }[]>`
      SELECT sealed_private_key AS sealed, public_key FROM signing_keys`;
    for (const { sealed, public_key } of rows) {
      const parts = sealed.split('.').slice(1);
      for (const part of parts) {
        const bytes = Buffer.from(part, 'base64url');
        for (let i = 0; i + 32 <= bytes.length; i++) {
          const seed = bytes.subarray(i, i + 32);
          expect(Buffer.from(ed25519.signer(seed).publicKey).toString('base64url')).not.toBe(public_key);
        }
      }
    }
  });

  it('refuses to start with another master key, and leaves everything as it was', async () => {
    const first = await load();
    await expect(load(Buffer.alloc(32, 2))).rejects.toThrow(MasterKeyError);
    await expect(load(Buffer.alloc(32, 2))).rejects.toThrow('Set the original MASTER_KEY');
    expect((await load()).all()).toEqual(first.all());
  });

  it('notices another master key also where only the check value is left', async () => {
    await load();
    await database.sql`DELETE FROM signing_keys`;
    await expect(load(Buffer.alloc(32, 2))).rejects.toThrow(MasterKeyError);
  });

  it('refuses a public half that was exchanged in the database', async () => {
    const other = Buffer.from(ed25519.signer(Buffer.alloc(32, 9)).publicKey).toString('base64url');
    await load();
    await database.sql`UPDATE signing_keys SET public_key = ${other} WHERE purpose = 'passport'`;
    await expect(load()).rejects.toThrow('do not belong together');
  });

  it('refuses a sealed half that was moved to another key', async () => {
    await load();
    await database.sql`
      UPDATE signing_keys SET sealed_private_key = (SELECT sealed_private_key FROM signing_keys WHERE purpose = 'sync')
      WHERE purpose = 'passport'`;
    await expect(load()).rejects.toThrow(MasterKeyError);
  });

  describe('reload', () => {
    const addKey = () =>
      database.sql.begin(async (tx) => {
        const wanted = { purpose: 'catalog', notBeforeMs: nowMs, createdAtMs: nowMs } as const;
        const key = makeSigningKey({ random: systemRandom(), ed25519, sealer: sealer(masterKey) }, wanted);
        await insertSigningKey(tx, key);
        return key.kid;
      });

    it('picks up a key that another replica added, and one that has ended', async () => {
      const keys = await load();
      const before = keys.current('catalog').kid;
      nowMs = (startedMs + 1) as UnixMillis;
      const added = await addKey();
      expect(keys.current('catalog').kid).toBe(before);
      await keys.reload();
      expect(keys.current('catalog').kid).toBe(added);
      await database.sql`UPDATE signing_keys SET compromised = true, retired_at_ms = 1 WHERE kid = ${added}`;
      await keys.reload();
      expect(keys.current('catalog').kid).toBe(before);
      expect(keys.all().find(({ kid }) => kid === added)).toMatchObject({ compromised: true });
    });

    it('answers the same array until something has changed', async () => {
      const keys = await load();
      const before = keys.all();
      await keys.reload();
      expect(keys.all()).toBe(before);
      await addKey();
      await keys.reload();
      expect(keys.all()).not.toBe(before);
    });

    it('shows nothing of the private halves', async () => {
      const keys = await load();
      await keys.reload();
      const members = ['compromised', 'kid', 'notBeforeMs', 'publicKey', 'purpose', 'retiredAtMs'];
      for (const key of keys.all()) expect(Object.keys(key).sort()).toEqual(members);
    });

    it('changes nothing without a sound key for a purpose, and goes on once that is repaired', async () => {
      const keys = await load();
      const before = keys.all();
      const added = await addKey();
      await database.sql`UPDATE signing_keys SET sealed_private_key = 'damaged' WHERE kid = ${added}`;
      await keys.reload();
      expect(keys.all()).toEqual(before);
      expect(keys.bad()).toMatchObject([{ kid: added, purpose: 'catalog' }]);
      await database.sql`DELETE FROM signing_keys WHERE purpose = 'catalog'`;
      await expect(keys.reload()).rejects.toThrow('every purpose has a key');
      expect(keys.all()).toEqual(before);
      const mended = await addKey();
      await keys.reload();
      expect(keys.current('catalog').kid).toBe(mended);
    });

    it('works one call after the other, so that an older state never replaces a newer one', async () => {
      let release: () => void = () => undefined;
      const held = new Promise<void>((resolve) => {
        release = resolve;
      });
      let isFirst = true;
      // Answers the first question at once and hands the answer over late.
      const slowOnce = (...question: Parameters<Database>) => {
        const answer = database.sql(...question).execute();
        if (!isFirst) return answer;
        isFirst = false;
        return answer.then(async (rows) => {
          await held;
          return rows;
        });
      };
      const sql = Object.assign(slowOnce, { begin: database.sql.begin }) as unknown as Database;
      const keys = await load(masterKey, sql);
      const early = keys.reload();
      const added = await addKey();
      const late = keys.reload();
      // Time enough for the second one to overtake the first, if it could.
      for (let i = 0; i < 5; i++) await database.sql`SELECT count(*) FROM signing_keys`;
      release();
      await Promise.all([early, late]);
      expect(keys.all().map(({ kid }) => kid)).toContain(added);
    });
  });

  describe('current', () => {
    const addPassportKey = async (change: {
      notBeforeMs?: number;
      retiredAtMs?: number;
      compromised?: boolean;
    }) => {
      const notBeforeMs = (change.notBeforeMs ?? startedMs + 1_000) as UnixMillis;
      const wanted = { purpose: 'passport', notBeforeMs, createdAtMs: startedMs } as const;
      const made = makeSigningKey({ random: systemRandom(), ed25519, sealer: sealer(masterKey) }, wanted);
      const key = {
        ...made,
        retiredAtMs: (change.retiredAtMs ?? null) as UnixMillis | null,
        compromised: change.compromised ?? false,
      };
      await database.sql.begin((tx) => insertSigningKey(tx, key));
      return key.kid;
    };

    it('is the newest key that has started', async () => {
      const first = (await load()).current('passport').kid;
      const second = await addPassportKey({ notBeforeMs: startedMs + 1_000 });
      const keys = await load();
      nowMs = (startedMs + 999) as UnixMillis;
      expect(keys.current('passport').kid).toBe(first);
      nowMs = (startedMs + 1_000) as UnixMillis;
      expect(keys.current('passport').kid).toBe(second);
    });

    it('is never a compromised or a retired one, which still verify', async () => {
      const first = (await load()).current('passport').kid;
      await addPassportKey({ notBeforeMs: startedMs, compromised: true });
      await addPassportKey({ notBeforeMs: startedMs, retiredAtMs: startedMs });
      const keys = await load();
      expect(keys.current('passport').kid).toBe(first);
      expect(keys.all()).toHaveLength(keyPurposes.length + 2);
    });

    it('exists on a replica with a slow clock', async () => {
      const { kid } = (await load()).current('sync');
      nowMs = (startedMs - 5_000) as UnixMillis;
      expect((await load()).current('sync').kid).toBe(kid);
    });
  });
});
