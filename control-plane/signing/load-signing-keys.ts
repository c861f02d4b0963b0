import { must } from '../../shared/errors/assert.ts';
import { type KeyPurpose, keyPurposes } from '../../shared/model/signing-key.ts';
import { checkMasterKey, MasterKeyError } from '../master-key/master-key.ts';
import type { SigningDeps } from './deps.ts';
import { makeSigningKey, openSigningKey } from './sealed-signing-key.ts';
import type { SignPool } from './sign-pool.ts';
import {
  insertSigningKey,
  lockSigningKeys,
  publicHalf,
  readSigningKeys,
  type StoredSigningKey,
} from './signing-key-store.ts';
import {
  type BadSigningKey,
  currentKey,
  hasEnded,
  type SigningKey,
  type SigningKeys,
} from './signing-keys.ts';

type KeyDeps = Pick<SigningDeps, 'sql' | 'clock' | 'random' | 'ed25519' | 'sealer'> & {
  /** Threads that sign many records at once. Default: none, the event loop signs. */
  readonly signPool?: SignPool;
};

/**
 * The service's signing keys, opened and ready. Creates one for each purpose without a key, so all of them on
 * the first start; private halves are stored sealed only. Replicas that start at once end with the same keys.
 * Throws MasterKeyError if MASTER_KEY does not open the stored keys, and if every row of a purpose is bad:
 * the table was damaged, and a new key would hide that. Beside a sound one, a bad row is ignored and named by
 * `bad`. `reload` applies later changes.
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
  let known = openKeys(deps, atStart, nothingKnown);
  let reading: Promise<void> = Promise.resolve();

  const read = async () => {
    const stored = await readSigningKeys(deps.sql);
    if (JSON.stringify(stored) !== known.fingerprint) known = openKeys(deps, stored, known);
  };

  const opened = ({ kid }: { readonly kid: string }) => must(known.byKid.get(kid), 'every known key is open');
  const ofPurpose = (purpose: KeyPurpose) => known.all.filter((key) => key.purpose === purpose);

  return {
    all: () => known.all,
    sound: (stored) => sortRows(deps, stored, known).sound,
    bad: () => known.bad,
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
  readonly byKid: ReadonlyMap<string, SigningKey>;
  readonly bad: ReturnType<SigningKeys['bad']>;
  /** By all that has to fit (`halvesOf`). */
  readonly opened: ReadonlyMap<string, SigningKey>;
  /** Kids. A key that was in other hands stays so. */
  readonly compromised: ReadonlySet<string>;
}

const nothingKnown: Pick<KnownKeys, 'opened' | 'compromised'> = {
  opened: new Map(),
  compromised: new Set(),
};

/** A key that was opened before is not opened again, unless its row has changed. */
function openKeys(
  deps: KeyDeps,
  stored: readonly StoredSigningKey[],
  before: Pick<KnownKeys, 'opened' | 'compromised'>,
): KnownKeys {
  const nowMs = deps.clock.now();
  const { sound, bad, opened, error } = sortRows(deps, stored, before);
  for (const purpose of keyPurposes) {
    const keys = sound.filter((key) => key.purpose === purpose);
    if (keys.length === 0 && error !== null) throw error;
    // Fails here, where the last good state stays, and not at a signature.
    currentKey(keys, nowMs);
  }
  return {
    fingerprint: JSON.stringify(stored),
    all: sound.map(publicHalf),
    byKid: new Map(sound.map((key) => [key.kid, must(opened.get(halvesOf(key)), 'a sound key is open')])),
    bad,
    opened,
    compromised: new Set(sound.flatMap(({ kid, compromised }) => (compromised ? [kid] : []))),
  };
}

interface SortedRows extends Pick<KnownKeys, 'bad' | 'opened'> {
  readonly sound: readonly StoredSigningKey[];
  /** Of the first bad row. */
  readonly error: MasterKeyError | null;
}

function sortRows(
  deps: KeyDeps,
  stored: readonly StoredSigningKey[],
  before: Pick<KnownKeys, 'opened' | 'compromised'>,
): SortedRows {
  const opened = new Map<string, SigningKey>();
  const sound: StoredSigningKey[] = [];
  const bad: BadSigningKey[] = [];
  let error: MasterKeyError | null = null;
  const note = ({ kid, purpose }: StoredSigningKey, fault: string) =>
    bad.push({ kid: kid.slice(0, kidCharsShown), purpose, fault });
  for (const key of stored) {
    const halves = halvesOf(key);
    try {
      opened.set(halves, before.opened.get(halves) ?? openSigningKey(deps, key));
    } catch (cause) {
      if (!(cause instanceof MasterKeyError)) throw cause;
      error ??= cause;
      note(key, 'its sealed private half does not open with MASTER_KEY, or is not that of the public half');
      continue;
    }
    const isTakenBack = !key.compromised && before.compromised.has(key.kid);
    if (isTakenBack) note(key, 'it was declared compromised, and the row says so no more');
    sound.push(isTakenBack ? { ...key, compromised: true } : key);
  }
  return { sound, bad, opened, error };
}

/** What a kid of ours has; a text that is not ours may have any length. */
const kidCharsShown = 43;

const halvesOf = ({ kid, publicKey, sealedPrivateKey }: StoredSigningKey): string =>
  `${kid} ${publicKey} ${sealedPrivateKey}`;
