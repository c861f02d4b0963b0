import { setTimeout as sleep } from 'node:timers/promises';
import {
  macKeyOf,
  masterKeyId,
  namedPrefix,
  nonceBytes,
  type Sealer,
  type SealerOptions,
  sealer,
  unnamedPrefix,
} from '../../shared/crypto/seal.ts';
import type { Transaction } from '../base/database.ts';
import type { BaseDeps } from '../base/deps.ts';
import {
  keepReceiptKey,
  lockMasterKeys,
  type MasterKeyCheck,
  readChecks,
  readReceiptKeys,
  receiptKeyContext,
} from './installation-store.ts';
import type { MasterKeys } from './key-sources.ts';
import { masterKeyLimits } from './limits.ts';
import { keyIdOf, MasterKeyError, noteInUse, opensCheck } from './master-key.ts';
import { putReplica, type Replica, readOthers, removeReplica, type SeenReplica } from './replica-store.ts';
import type { SealedPlace } from './sealed-place.ts';

export type MasterKeyDeps = Pick<BaseDeps, 'sql' | 'random' | 'logger' | 'replicaId'> & {
  readonly places: readonly SealedPlace[];
};

/** What a start makes of its master keys. */
export interface TakenKeys {
  readonly sealer: Sealer;
  readonly replica: Replica;
}

/**
 * The sealer of this replica, which is listed as running from now on. In one transaction: every key that is
 * in use is given, and no replica that runs seals what another one does not open. Throws MasterKeyError where
 * that is not so. A listed replica that differs may have crashed, so it is watched for
 * `masterKeyLimits.replicaLiveMs` first.
 */
export async function takeMasterKeys(deps: MasterKeyDeps, keys: MasterKeys): Promise<TakenKeys> {
  const first = new Map<string, SeenReplica>();
  for (;;) {
    const taken = await deps.sql.begin((tx) => tryToTake(tx, deps, keys));
    if ('sealer' in taken) return taken;
    const { conflict } = taken;
    const before = first.get(conflict.replicaId);
    if (before !== undefined && before.seenAtMs !== conflict.seenAtMs) throw differs(keys, conflict);
    if (before === undefined) {
      first.set(conflict.replicaId, conflict);
      deps.logger.warn(
        { replica: conflict.replicaId },
        'a control plane with other master keys runs, or has crashed; the start goes on once it is certain which',
      );
    }
    await sleep(masterKeyLimits.joinRetryMs);
  }
}

/**
 * For the end of this replica: others need not wait for it. Never rejects, and does not wait for a database.
 */
export async function leaveReplicas({
  sql,
  replicaId,
}: Pick<MasterKeyDeps, 'sql' | 'replicaId'>): Promise<void> {
  const removed = removeReplica(sql, replicaId).catch(() => undefined);
  await Promise.race([removed, sleep(masterKeyLimits.leaveMsMax, undefined, { ref: false })]);
}

async function tryToTake(
  tx: Transaction,
  deps: MasterKeyDeps,
  keys: MasterKeys,
): Promise<TakenKeys | { readonly conflict: SeenReplica }> {
  await lockMasterKeys(tx);
  const replica: Replica = {
    replicaId: deps.replicaId,
    sealsWith: masterKeyId(keys.own),
    opens: [keys.own, ...keys.fallbacks].map(masterKeyId),
  };
  const checks = await readChecks(tx);
  const options: SealerOptions = { fallbacks: keys.fallbacks, isNamed: isNamed(keys.own, checks) };
  const plain = sealer(keys.own, options);
  await refuseMissing(tx, deps, { sealer: plain, checks, replica });
  const conflict = (await readOthers(tx, replica.replicaId)).find((other) => !agree(replica, other));
  if (conflict !== undefined) return { conflict };
  await putReplica(tx, replica);
  await noteInUse(tx, { sealer: plain, random: deps.random }, checks);
  const macKeys = (await readReceiptKeys(tx)).map(({ keyId, value }) =>
    plain.open(value, receiptKeyContext(keyId)),
  );
  return { sealer: sealer(keys.own, { ...options, macKeys }), replica };
}

/** The first key of a database seals as it always did, so that versions from before can open it. */
function isNamed(own: Uint8Array, checks: readonly MasterKeyCheck[]): boolean {
  const unnamed = checks.find(({ value }) => value.startsWith(unnamedPrefix));
  return checks.length > 0 && (unnamed === undefined || !opensCheck(sealer(own), unnamed));
}

const agree = (one: Replica, other: Replica): boolean =>
  other.opens.includes(one.sealsWith) && one.opens.includes(other.sealsWith);

const remedy = 'docs/operate/hardening.md has the order of the steps.';

function differs({ own, fallbacks }: MasterKeys, other: SeenReplica): MasterKeyError {
  const id = masterKeyId(own);
  const opens = [own, ...fallbacks].map(masterKeyId);
  return new MasterKeyError(
    opens.includes(other.sealsWith)
      ? `MASTER_KEY (its id is ${id}) would seal what control plane ${other.replicaId}, which runs, cannot open. First add it to MASTER_KEY_FALLBACKS of every control plane; once all run with it, exchange the two settings. ${remedy}`
      : `Control plane ${other.replicaId}, which runs, seals with the master key ${other.sealsWith}, which is not given here. Add it to MASTER_KEY_FALLBACKS. ${remedy}`,
  );
}

/** Throws MasterKeyError where a key is in use that is not given, with what would be lost without it. */
async function refuseMissing(
  tx: Transaction,
  { places }: MasterKeyDeps,
  given: {
    readonly sealer: Sealer;
    readonly checks: readonly MasterKeyCheck[];
    readonly replica: Replica;
  },
): Promise<void> {
  const missing = given.checks.find((check) => !opensCheck(given.sealer, check));
  if (missing === undefined) return;
  const keyId = keyIdOf(missing.value);
  const isWrongKey = given.checks.every((check) => !opensCheck(given.sealer, check));
  if (isWrongKey)
    throw new MasterKeyError(
      'MASTER_KEY is not the one with which this database was set up, so its signing keys cannot be opened. ' +
        `Set the original MASTER_KEY (with an embedded database: restore DATA_DIR/master-key). ${
          keyId === null
            ? ''
            : `The id of the key that is in use is ${keyId}; that of the one given, ${given.replica.sealsWith}.`
        }`.trim(),
    );
  const counts: string[] = [];
  for (const place of places) {
    const count = await place.count(tx, keyId === null ? unnamedPrefix : namedPrefix(keyId));
    if (count > 0) counts.push(`${count} ${place.name}`);
  }
  const name = keyId === null ? 'with which this database was set up' : keyId;
  throw new MasterKeyError(
    `The master key ${name} is not given, and is still in use: it seals ${
      counts.join(', ') || 'nothing that is left, but its end was not noted'
    }. Add it to MASTER_KEY_FALLBACKS, until /readyz says that the master key is settled. ${remedy}`,
  );
}

/** What verifies receipts of the fallbacks once they are gone. */
export async function keepReceiptKeys(
  tx: Transaction,
  { sealer: own, random }: Pick<BaseDeps, 'sealer' | 'random'>,
  fallbacks: readonly Uint8Array[],
): Promise<void> {
  for (const key of fallbacks) {
    const keyId = masterKeyId(key);
    const value = own.seal(
      macKeyOf(key, 'agent-trust.receipt.v1'),
      receiptKeyContext(keyId),
      random.bytes(nonceBytes),
    );
    await keepReceiptKey(tx, { keyId, value });
  }
}
