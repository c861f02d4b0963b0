import { describe, expect, it } from 'vitest';
import { chooseEd25519 } from '../../../../shared/crypto/choose-ed25519.ts';
import { must } from '../../../../shared/errors/assert.ts';
import type { KeyPurpose } from '../../../../shared/model/signing-key.ts';
import type { MonotonicMillis, UnixMillis } from '../../../../shared/model/time.ts';
import { silentLogger } from '../../../../shared/runtime/logger.ts';
import type { ChangeEntry, SignedSnapshot } from '../../../../shared/wire/sync/sync-schema.ts';
import { replicaLimits } from '../../../../sidecar/replica/limits.ts';
import { Replica } from '../../../../sidecar/replica/replica.ts';
import type { SnapshotFile } from '../../../../sidecar/replica/snapshot-file.ts';
import { SnapshotKeeper } from '../../../../sidecar/replica/snapshot-keeper.ts';
import { ModelService, standing } from '../../../support/data/model-service.ts';

/** A disk in memory that fails when it is told to, and that waits when it is told to. */
class Disk implements SnapshotFile {
  readonly directory = '';
  snapshot: SignedSnapshot | null = null;
  entries: ChangeEntry[] = [];
  writes: string[] = [];
  fails = false;
  gate: Promise<void> = Promise.resolve();
  open: () => void = () => undefined;
  onWrite: () => void = () => undefined;

  /** Writes wait from now on; returns what lets them go on. */
  stop(): () => void {
    this.gate = new Promise((resolve) => {
      this.open = resolve;
    });
    return this.open;
  }

  readTrustedKeys = async () => [];
  readRecordForm = async () => 1 as const;
  load = async () => null;

  async #write(what: string): Promise<void> {
    await this.gate;
    if (this.fails) throw new Error('no space left on device');
    this.writes.push(what);
    this.onWrite();
  }
  async writeTrustedKeys(): Promise<void> {
    await this.#write('keys');
  }
  async writeRecordForm(): Promise<void> {
    await this.#write('form');
  }
  async replace(signed: SignedSnapshot): Promise<void> {
    await this.#write('snapshot');
    this.snapshot = signed;
    this.entries = [];
  }
  async append(entries: readonly ChangeEntry[]): Promise<void> {
    await this.#write('changes');
    this.entries.push(...entries);
  }
  async sync(): Promise<void> {
    await this.#write('sync');
  }
}

function setUp() {
  const ed25519 = chooseEd25519();
  const time = { monotonicMs: 0 };
  const clock = { now: () => 0 as UnixMillis, monotonic: () => time.monotonicMs as MonotonicMillis };
  const service = new ModelService(ed25519);
  const replica = new Replica({ ed25519, clock, logger: silentLogger, pinnedKeys: [] });
  const disk = new Disk();
  const freed: number[] = [];
  const keeper = new SnapshotKeeper({
    ...{ file: disk, replica, clock, logger: silentLogger },
    freeMemory: () => void freed.push(disk.writes.length),
  });
  const begin = (chars = 0) => {
    const snapshot = service.snapshot();
    const signed = { ...snapshot, snapshot: snapshot.snapshot.padEnd(chars) };
    replica.install(snapshot, { asOfMs: null, accountId: null });
    keeper.begin(signed);
    return signed;
  };
  const change = (n: number) => {
    const entry = service.change('global', standing(n, 'revoked'));
    replica.apply(entry);
    keeper.add(entry);
    return entry;
  };
  const pass = (ms: number) => {
    time.monotonicMs += ms;
  };
  return { service, disk, keeper, freed, begin, change, pass };
}

const settle = () => new Promise((resolve) => setImmediate(resolve));

describe('the keeper of the snapshot on disk', () => {
  it('writes the trusted keys, then the snapshot, and the keys only when they change', async () => {
    const { disk, begin } = setUp();
    begin();
    await settle();
    const second = begin();
    await settle();
    expect(disk.writes).toEqual(['keys', 'snapshot', 'sync', 'snapshot', 'sync']);
    expect(disk.snapshot).toEqual(second);
  });

  it('has memory freed when a large snapshot is written, or cannot be, and not after a small one', async () => {
    const { disk, freed, begin } = setUp();
    begin(replicaLimits.snapshotCharsFreedMin - 1);
    await settle();
    await settle();
    expect({ freed, writes: disk.writes.length }).toEqual({ freed: [], writes: 3 });
    begin(replicaLimits.snapshotCharsFreedMin);
    await settle();
    await settle();
    expect(freed, 'after the second snapshot').toEqual([5]);
    disk.fails = true;
    begin(replicaLimits.snapshotCharsFreedMin);
    await settle();
    await settle();
    expect(freed).toEqual([5, 5]);
  });

  it('writes what was applied at once, what comes meanwhile with the next write, and syncs in between', async () => {
    const { disk, keeper, begin, change } = setUp();
    begin();
    await settle();
    disk.writes = [];
    const entries = [change(1), change(2)];
    const open = disk.stop();
    await settle();
    expect(disk.writes).toEqual([]);
    entries.push(change(3), change(4));
    open();
    await keeper.flush();
    expect(disk.writes).toEqual(['changes', 'sync', 'changes', 'sync']);
    expect(disk.entries).toEqual(entries);
  });

  it('has kept a change once it is written, not only synced; also where the disk fails or hangs', async () => {
    const { disk, keeper, begin, change } = setUp();
    begin();
    await keeper.flush();
    disk.writes = [];
    const open = disk.stop();
    change(1);
    let isKept = false;
    const kept = keeper.kept().then(() => {
      isKept = true;
    });
    await settle();
    expect(isKept).toBe(false);
    change(2);
    const startedMs = performance.now();
    const both = keeper.kept();
    disk.onWrite = () => disk.stop();
    open();
    await kept;
    expect(disk.writes).toEqual(['changes']);
    // The sync hangs, and the next write waits for it.
    await both;
    expect(performance.now() - startedMs).toBeGreaterThanOrEqual(replicaLimits.keptWaitMsMax - 5);
    expect(disk.writes).toEqual(['changes']);
    disk.onWrite = () => undefined;
    disk.fails = true;
    disk.open();
    await keeper.flush();
    change(3);
    await keeper.kept();
    expect(keeper.wantsSnapshot).toBe(false);
    expect(disk.entries).toHaveLength(1);
  });

  it('puts nothing after a snapshot that was applied before it, though writing takes long', async () => {
    const { disk, keeper, begin, change } = setUp();
    begin();
    await settle();
    const open = disk.stop();
    change(1);
    await settle();
    change(2);
    const fresh = begin();
    const later = change(3);
    open();
    await settle();
    await keeper.flush();
    expect(disk.snapshot).toEqual(fresh);
    expect(disk.entries).toEqual([later]);
  });

  it('asks for a fresh snapshot a while after the disk has failed, and writes no changes until it has one', async () => {
    const { disk, keeper, begin, change, pass } = setUp();
    begin();
    await settle();
    disk.fails = true;
    change(1);
    await settle();
    disk.fails = false;
    expect(keeper.wantsSnapshot).toBe(false);
    change(2);
    pass(replicaLimits.snapshotFileRetryMs + 1);
    await settle();
    expect(disk.entries).toEqual([]);
    expect(keeper.wantsSnapshot).toBe(true);
    keeper.postpone();
    expect(keeper.wantsSnapshot).toBe(false);
    const fresh = begin();
    const later = change(3);
    await keeper.flush();
    expect(keeper.wantsSnapshot).toBe(false);
    expect(disk.snapshot).toEqual(fresh);
    expect(disk.entries).toEqual([later]);
  });

  it('asks for a fresh snapshot when the sync key that signed the old one may be in other hands', async () => {
    const { service, disk, keeper, begin } = setUp();
    begin();
    await settle();
    const put = (purpose: KeyPurpose, compromised: boolean) => {
      const key = must(
        service.keys.find((each) => each.purpose === purpose),
        'the service has it',
      );
      keeper.add(service.change('global', { kind: 'signing_key.put', body: { ...key, compromised } }));
      return keeper.wantsSnapshot;
    };
    expect(put('passport', true)).toBe(false);
    expect(put('sync', false)).toBe(false);
    expect(put('sync', true)).toBe(true);
    const fresh = begin();
    expect(keeper.wantsSnapshot).toBe(false);
    await keeper.flush();
    expect(disk.snapshot).toEqual(fresh);
  });

  it('asks for a fresh snapshot when there are too many changes after the old one', () => {
    const { keeper } = setUp();
    keeper.resume(replicaLimits.snapshotFileChangesMax);
    expect(keeper.wantsSnapshot).toBe(false);
    keeper.resume(replicaLimits.snapshotFileChangesMax + 1);
    expect(keeper.wantsSnapshot).toBe(true);
  });
});
