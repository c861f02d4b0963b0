import { randomBytes } from 'node:crypto';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { chooseEd25519 } from '../../shared/crypto/choose-ed25519.ts';
import { digestWordsOf } from '../../shared/crypto/id-digest.ts';
import { must } from '../../shared/errors/assert.ts';
import { makeId, type PassportId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { expiredByDay, syncVersion } from '../../shared/wire/sync/sync.ts';
import {
  type PassportStandingGroup,
  parseSnapshot,
  type Snapshot,
} from '../../shared/wire/sync/sync-schema.ts';
import { stateOf } from '../../sidecar/replica/replica-state.ts';
import { callsOf } from '../harness/calls.ts';
import { mebibytes } from '../harness/memory.ts';
import { interleaved } from '../harness/rounds.ts';
import type { BenchOptions } from '../harness/row.ts';
import { type Table, tableLine } from '../harness/table.ts';

const revocations = 1_000_000;
/**
 * Each look-up is for another id, so that little is in the processor's cache, as in production. Digests are
 * known, as with a cached passport.
 */
const askedAbout = 100_000;
/** Passports are issued for 90 days, so a million of them end on about as many. */
const endDays = 90;
const nowMs = Date.UTC(2026, 0, 1) as UnixMillis;

/**
 * What a million revocations cost a sidecar: memory, the snapshot that brings them, and the look-up of each
 * request, beside a map of ids.
 */
export async function standings({ size, say }: BenchOptions): Promise<Table> {
  const rounds = { full: 7, quick: 3, brief: 1 }[size];
  const secondsEach = { full: 0.5, quick: 0.1, brief: 0.02 }[size];
  const ids = Array.from({ length: revocations }, () => makeId('pass', nowMs, randomBytes(10)));
  const text = JSON.stringify(snapshotOf(ids));
  say(`a snapshot of ${mebibytes(text.length)} MiB`);
  const ours = measureMemory(() =>
    stateOf(must(parseSnapshot(text), 'it has the shape of a snapshot'), chooseEd25519()),
  );
  // As parsed JSON brings them: each id in a string of its own.
  const plain = measureMemory(() => new Map(ids.map((id) => [Buffer.from(id).toString(), Number(nowMs)])));

  // Half of those asked about are revoked.
  const asked = ids.slice(0, askedAbout).flatMap((id) => [id, makeId('pass', nowMs, randomBytes(10))]);
  const digests = asked.map((id) => digestWordsOf(id));
  const texts = asked.map((id) => Buffer.from(id).toString());
  let turn = 0;
  const next = <T>(all: readonly T[]): T => {
    turn = (turn + 1) % all.length;
    return must(all[turn], 'a turn is a place');
  };
  const name = 'by digest, in typed arrays';
  const plainName = 'a map of ids';
  const sides = [
    callsOf(name, () => ours.made.standings.get(next(digests), 0)),
    callsOf(plainName, () => plain.made.has(next(texts) as PassportId)),
  ];
  const figures = await interleaved(sides, { rounds, seconds: secondsEach, say });
  return {
    row: 'standings',
    title: 'The standing of a passport among a million revoked ones',
    unit: 'look-ups/s',
    rounds,
    secondsEach,
    lines: [
      tableLine({ name, does: '', doesNot: '', target: null }, figures, name),
      tableLine(
        { name: plainName, does: '', doesNot: '', target: { name: 'no slower', wanted: 1 } },
        figures,
        name,
      ),
    ],
    skipped: [],
    notes: [
      `Memory of ${revocations.toLocaleString('en-US')} revocations: ${mebibytes(ours.bytes)} MiB (at most 64), as a map of ids ${mebibytes(plain.bytes)} MiB.`,
      `Their snapshot has ${mebibytes(text.length)} MiB. Parsing it and building the state took ${Math.round(ours.tookMs)} ms.`,
      'Half of the passports that are looked up are revoked; 200,000 different ones in turn.',
    ],
  };
}

function snapshotOf(ids: readonly string[]): Snapshot {
  const groups = Array.from({ length: endDays }, (_, day): PassportStandingGroup => {
    const members = ids.filter((_id, index) => index % endDays === day);
    const bytes = members.map((id) => new Uint8Array(digestWordsOf(id).buffer));
    const passports = Buffer.concat(bytes).toString('base64url');
    return {
      standing: 'revoked',
      expired_by_day: must(expiredByDay(nowMs), 'it has an end') + day,
      passports,
    };
  });
  return {
    sync_version: syncVersion,
    account_id: makeId('acct', nowMs, randomBytes(10)),
    account_revision: 0,
    account_mark: '',
    global_revision: 0,
    global_mark: '',
    account_status: 'active',
    gates: [],
    api_keys: [],
    passport_standings: groups,
    suspended_issuers: [],
    suspended_accounts: [],
    signing_keys: [],
    taken_at_ms: nowMs,
  };
}

/** Its memory after garbage collection, and the time that making it took. */
function measureMemory<T>(make: () => T): {
  readonly made: T;
  readonly bytes: number;
  readonly tookMs: number;
} {
  const before = usedBytes();
  const startedMs = performance.now();
  const made = make();
  const tookMs = performance.now() - startedMs;
  return { made, bytes: usedBytes() - before, tookMs };
}

function usedBytes(): number {
  collectGarbage();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;
