import { describe, expect, it } from 'vitest';
import { chooseEd25519 } from '../../../../shared/crypto/choose-ed25519.ts';
import { must } from '../../../../shared/errors/assert.ts';
import type { KeyPurpose } from '../../../../shared/model/signing-key.ts';
import type { MonotonicMillis, UnixMillis } from '../../../../shared/model/time.ts';
import { silentLogger } from '../../../../shared/runtime/logger.ts';
import type { ChangeEntry, SignedSnapshot } from '../../../../shared/wire/sync-schema.ts';
import { replicaLimits } from '../../../../sidecar/replica/limits.ts';
import { Replica } from '../../../../sidecar/replica/replica.ts';
import type { SnapshotFile } from '../../../../sidecar/replica/snapshot-file.ts';
import { SnapshotKeeper } from '../../../../sidecar/replica/snapshot-keeper.ts';
import { ModelService, standing } from '../../../support/model-service.ts';

/** A disk in memory that fails when it is told to, and that waits when it is told to. */
class Disk implements SnapshotFile {
  readonly directory = '';
  snapshot: SignedSnapshot | null = null;
  entries: ChangeEntry[] = [];
  writes: string[] = [];
  fails = false;
  gate: Promise<void> = Promise.resolve();

  readTrustedKeys = async () => [];
  load = async () => null;

  async #write(what: string): Promise<void> {
    await this.gate;
    if (this.fails) throw new Error('no space left on device');
    this.writes.push(what);
  }
  async writeTrustedKeys(): Promise<void> {
    await this.#write('keys');
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
    keeper.tick();
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
    expect(disk.writes).toEqual(['keys', 'snapshot', 'snapshot']);
    expect(disk.snapshot).toEqual(second);
  });

  it('has memory freed when a large snapshot is written, or cannot be, and not after a small one', async () => {
    const { disk, freed, begin } = setUp();
    begin(replicaLimits.snapshotCharsFreedMin - 1);
    await settle();
    await settle();
    expect({ freed, writes: disk.writes.length }).toEqual({ freed: [], writes: 2 });
    begin(replicaLimits.snapshotCharsFreedMin);
    await settle();
    await settle();
    expect(freed, 'after the third write').toEqual([3]);
    disk.fails = true;
    begin(replicaLimits.snapshotCharsFreedMin);
    await settle();
    await settle();
    expect(freed).toEqual([3, 3]);
  });

  it('writes what was applied in batches, at most every two seconds, and the rest when it is closed', async () => {
    const { disk, keeper, begin, change, pass } = setUp();
    begin();
    await settle();
    const entries = [change(1), change(2)];
    pass(replicaLimits.snapshotFileIntervalMs - 1);
    await settle();
    expect(disk.entries).toEqual([]);
    pass(1);
    await settle();
    expect(disk.entries).toEqual(entries);
    entries.push(change(3));
    await keeper.close();
    expect(disk.entries).toEqual(entries);
  });

  it('puts nothing behind a snapshot that was applied before it, though writing takes long', async () => {
    const { disk, keeper, begin, change, pass } = setUp();
    begin();
    await settle();
    let open: () => void = () => undefined;
    disk.gate = new Promise((resolve) => {
      open = resolve;
    });
    change(1);
    pass(replicaLimits.snapshotFileIntervalMs);
    change(2);
    const fresh = begin();
    const later = change(3);
    open();
    await settle();
    await keeper.close();
    expect(disk.snapshot).toEqual(fresh);
    expect(disk.entries).toEqual([later]);
  });

  it('asks for a fresh snapshot a while after the disk has failed, and writes no changes until it has one', async () => {
    const { disk, keeper, begin, change, pass } = setUp();
    begin();
    await settle();
    disk.fails = true;
    change(1);
    pass(replicaLimits.snapshotFileIntervalMs);
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
    await keeper.close();
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
    await keeper.close();
    expect(disk.snapshot).toEqual(fresh);
  });

  it('asks for a fresh snapshot when there are too many changes behind the old one', () => {
    const { keeper } = setUp();
    keeper.resume(replicaLimits.snapshotFileChangesMax);
    expect(keeper.wantsSnapshot).toBe(false);
    keeper.resume(replicaLimits.snapshotFileChangesMax + 1);
    expect(keeper.wantsSnapshot).toBe(true);
  });
});
