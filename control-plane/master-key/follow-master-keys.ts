import { Gauge } from 'prom-client';
import { type Repetition, repeat } from '../../shared/runtime/repeat.ts';
import type { Database } from '../base/database.ts';
import type { BaseDeps } from '../base/deps.ts';
import { lockMasterKeys, type MasterKeyCheck, readChecks, replaceChecks } from './installation-store.ts';
import type { MasterKeys } from './key-sources.ts';
import { masterKeyLimits } from './limits.ts';
import { noteInUse, opensCheck, sealCheck } from './master-key.ts';
import { putReplica, type Replica, readOthers } from './replica-store.ts';
import { type Pass, resealAll } from './reseal.ts';
import type { SealedPlace } from './sealed-place.ts';
import { keepReceiptKeys } from './take-master-keys.ts';

/**
 *     settled ──a replica starts with another MASTER_KEY──> changing ──all sealed by one──> settled
 *
 * `waiting`: not all replicas seal with the same key yet, so nothing is sealed anew. `missing`: a key is in
 * use that is not given here, so this replica cannot open all secrets and is not ready.
 */
export type MasterKeyState = 'settled' | 'waiting' | 'changing' | 'missing';

const states = new WeakMap<Database, MasterKeyState>();

/** As this replica saw it last. */
export const masterKeyState = (sql: Database): MasterKeyState => states.get(sql) ?? 'settled';

type FollowDeps = Pick<BaseDeps, 'sql' | 'random' | 'sealer' | 'logger' | 'metrics'>;

export interface Followed {
  readonly keys: MasterKeys;
  readonly replica: Replica;
  readonly places: readonly SealedPlace[];
}

/**
 * Says that this replica runs, and which keys it has. Where several master keys are in use and every replica
 * seals with the same one, seals everything with it and ends the use of the others. Never throws.
 */
export function followMasterKeys(deps: FollowDeps, followed: Followed): Repetition {
  const { sql, logger } = deps;
  let inUse = 1;
  new Gauge({
    name: 'agent_trust_master_keys_in_use',
    help: 'Master keys under which secrets of the database are sealed: 1, and more while MASTER_KEY changes.',
    registers: [deps.metrics],
    collect() {
      this.set(inUse);
    },
  });
  const tell = teller(deps, followed);
  let isFailing = false;
  return repeat(async (state) => {
    try {
      const seen = await look(deps, followed);
      inUse = seen.inUse;
      states.set(sql, seen.state);
      tell(seen.state);
      if (seen.state === 'changing' && (await change(deps, followed, state))) {
        inUse = 1;
        states.set(sql, 'settled');
        tell('settled');
      }
      isFailing = false;
    } catch (error) {
      if (!isFailing) logger.warn({ err: error }, 'the master keys in use cannot be looked at');
      isFailing = true;
    }
    return masterKeyLimits.beatIntervalMs;
  });
}

interface Seen {
  readonly state: MasterKeyState;
  readonly inUse: number;
}

async function look(deps: FollowDeps, followed: Followed): Promise<Seen> {
  const checks = await deps.sql.begin(async (tx) => {
    await lockMasterKeys(tx);
    await putReplica(tx, followed.replica);
    const before = await readChecks(tx);
    // It was stopped for so long that others ended the use of its key.
    await noteInUse(tx, deps, before);
    return readChecks(tx);
  });
  return { state: await stateOf(deps, followed, checks), inUse: checks.length };
}

async function stateOf(
  { sql, sealer }: FollowDeps,
  { replica }: Followed,
  checks: readonly MasterKeyCheck[],
): Promise<MasterKeyState> {
  if (!checks.every((check) => opensCheck(sealer, check))) return 'missing';
  if (checks.every(({ value }) => value.startsWith(sealer.prefix))) return 'settled';
  const others = await readOthers(sql, replica.replicaId);
  return others.every(({ sealsWith }) => sealsWith === replica.sealsWith) ? 'changing' : 'waiting';
}

/** False: it was stopped, or something new was sealed by another key; the next look begins again. */
async function change(
  deps: FollowDeps,
  followed: Followed,
  state: { readonly isStopped: boolean },
): Promise<boolean> {
  for (let passes = 0; passes < masterKeyLimits.resealPassesMax; passes++) {
    const beating = beat(deps, followed);
    const pass = await resealAll(deps, followed.places, state).finally(beating.stop);
    if (pass.isCut) return false;
    if (pass.resealed + pass.changed > 0) continue;
    return end(deps, followed, pass);
  }
  return false;
}

/** A pass may take longer than others wait for a sign of life. */
const beat = ({ sql }: FollowDeps, { replica }: Followed): Repetition =>
  repeat(async () => {
    await putReplica(sql, replica).catch(() => undefined);
    return masterKeyLimits.beatIntervalMs;
  });

async function end(deps: FollowDeps, followed: Followed, { unopened }: Pass): Promise<boolean> {
  const { keys, replica } = followed;
  const hasEnded = await deps.sql.begin(async (tx) => {
    await lockMasterKeys(tx);
    const others = await readOthers(tx, replica.replicaId);
    if (others.some(({ sealsWith }) => sealsWith !== replica.sealsWith)) return false;
    await keepReceiptKeys(tx, deps, keys.fallbacks);
    await replaceChecks(tx, sealCheck(deps));
    return true;
  });
  if (hasEnded && unopened.length > 0)
    deps.logger.error(
      { count: unopened.length, rows: unopened.slice(0, masterKeyLimits.unopenedNamedMax) },
      'secrets open with none of the master keys, so they were lost before MASTER_KEY changed: make them anew',
    );
  return hasEnded;
}

const sentences: Readonly<Record<MasterKeyState, string>> = {
  settled:
    'MASTER_KEY has changed: nothing in the database is sealed by another key. MASTER_KEY_FALLBACKS can go; keep the old key for backups from before',
  changing: 'MASTER_KEY changes: secrets are sealed with the new one',
  waiting:
    'MASTER_KEY changes: secrets are sealed anew once every control plane has the same MASTER_KEY; restart those that have the old one',
  missing:
    'secrets are sealed by a master key that is not given here, so this control plane is not ready: add it to MASTER_KEY_FALLBACKS and restart',
};

/** Each change of the state once. */
function teller({ logger }: FollowDeps, { replica }: Followed): (state: MasterKeyState) => void {
  let told: MasterKeyState = 'settled';
  return (state) => {
    if (state === told) return;
    told = state;
    const facts = { key: replica.sealsWith };
    if (state === 'missing') logger.error(facts, sentences[state]);
    else logger.info(facts, sentences[state]);
  };
}
