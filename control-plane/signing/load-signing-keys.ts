import { must } from '../../shared/errors/assert.ts';
import { type KeyPurpose, keyPurposes } from '../../shared/model/signing-key.ts';
import type { SigningDeps } from './deps.ts';
import { checkMasterKey } from './master-key.ts';
import { makeSigningKey, openSigningKey } from './sealed-signing-key.ts';
import type { SignPool } from './sign-pool.ts';
import {
  insertSigningKey,
  lockSigningKeys,
  publicHalf,
  readSigningKeys,
  type StoredSigningKey,
} from './signing-key-store.ts';
import { currentKey, hasEnded, type SigningKey, type SigningKeys } from './signing-keys.ts';

type KeyDeps = Pick<SigningDeps, 'sql' | 'clock' | 'random' | 'ed25519' | 'sealer'> & {
  /** Threads that sign many records at once. Default: none, the event loop signs. */
  readonly signPool?: SignPool;
};

/**
 * The service's signing keys, opened and ready. Makes one for each purpose that has none: on the first start
 * all of them, of which the private halves are stored only sealed. Replicas that start at once end with the
 * same keys. Throws MasterKeyError where MASTER_KEY is not the one with which the stored keys were sealed.
 * What changes later is seen by `reload`.
 */
export async function loadSigningKeys(deps: KeyDeps): Promise<SigningKeys> {
  const stored = await deps.sql.begin(async (tx) => {
    await lockSigningKeys(tx);
    await checkMasterKey(tx, deps);
    const existing = await readSigningKeys(tx);
    const missing = keyPurposes.filter((purpose) => existing.every((key) => key.purpose !== purpose));
    const nowMs = deps.clock.now();
    for (const purpose of missing) {
      await insertSigningKey(tx, makeSigningKey(deps, { purpose, notBeforeMs: nowMs, createdAtMs: nowMs }));
    }
    return readSigningKeys(tx);
  });
  return signingKeysOf(deps, stored);
}

function signingKeysOf(deps: KeyDeps, atStart: readonly StoredSigningKey[]): SigningKeys {
  let known = openKeys(deps, atStart, new Map());
  let reading: Promise<void> = Promise.resolve();

  const read = async () => {
    const stored = await readSigningKeys(deps.sql);
    if (JSON.stringify(stored) !== known.fingerprint) known = openKeys(deps, stored, known.opened);
  };

  const opened = ({ kid }: { readonly kid: string }) =>
    must(known.opened.get(kid), 'every known key is open');
  const ofPurpose = (purpose: KeyPurpose) => known.all.filter((key) => key.purpose === purpose);

  return {
    all: () => known.all,
    current: (purpose) => opened(currentKey(ofPurpose(purpose), deps.clock.now())),
    vouching: (purpose) => {
      const nowMs = deps.clock.now();
      const keys = ofPurpose(purpose);
      const retired = keys.filter((key) => hasEnded(key, nowMs) && !key.compromised);
      return [currentKey(keys, nowMs), ...retired].map(opened);
    },
    reload: () => {
      reading = reading.then(read, read);
      return reading;
    },
  };
}

/** What a replica knows of the keys: made whole, and replaced as a whole. */
interface KnownKeys {
  /** Says whether anything has changed. */
  readonly fingerprint: string;
  readonly all: ReturnType<SigningKeys['all']>;
  /** By kid. */
  readonly opened: ReadonlyMap<string, SigningKey>;
}

/** A key that was opened before is not opened again: neither half of it ever changes. */
function openKeys(
  deps: KeyDeps,
  stored: readonly StoredSigningKey[],
  before: KnownKeys['opened'],
): KnownKeys {
  const nowMs = deps.clock.now();
  for (const purpose of keyPurposes) {
    // Fails here, where the last good state stays, and not at a signature.
    currentKey(
      stored.filter((key) => key.purpose === purpose),
      nowMs,
    );
  }
  return {
    fingerprint: JSON.stringify(stored),
    all: stored.map(publicHalf),
    opened: new Map(stored.map((key) => [key.kid, before.get(key.kid) ?? openSigningKey(deps, key)])),
  };
}
