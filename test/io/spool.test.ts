import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import type { AttestationId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { SettlementVoid, SpooledRecord } from '../../shared/wire/sync/sync.ts';
import type { Spool, SpoolOptions } from '../../sidecar/attest/spool.ts';
import { nodeFiles } from '../../sidecar/attest/spool-files.ts';
import { frameBytesMax } from '../../sidecar/attest/spool-segment.ts';
import { until } from '../support/base/until.ts';
import { useFolder } from '../support/base/use.ts';
import { appendTurn, openTestSpool, ownerOf, readOlderEpochs } from '../support/data/spooled.ts';
import { inParts, spooledRecord } from '../support/data/spooled-record.ts';
import { faultyFiles } from '../support/peers/faulty-files.ts';

const folder = useFolder();
afterEach(() => {
  vi.useRealTimers();
});

/** A disk that works and remembers what it was asked. */
const watchedFiles = () => faultyFiles({ failAt: Number.POSITIVE_INFINITY, failures: 0, mode: 'failed' });
const epochFolders = () => readdirSync(folder.path).filter((name) => /^\d{8}-/.test(name));

describe('spool', () => {
  it('writes all records of one event-loop turn with one call, then notifies their owners', async () => {
    const files = watchedFiles();
    const spool = await openTestSpool(folder.path, { files });
    const told: string[] = [];
    for (const name of ['a', 'b', 'c'])
      spool.append(
        inParts(spooledRecord()),
        ownerOf((outcome) => told.push(name + outcome)),
      );
    expect(files.calls).not.toContain('write');
    expect(told).toEqual([]);
    await until(() => told.length === 3, { what: 'the turn is written' });
    expect(told).toEqual(['awritten', 'bwritten', 'cwritten']);
    expect(files.calls.filter((call) => call === 'write')).toHaveLength(1);
    await spool.close();
  });

  it('makes its folder durable before it takes a record', async () => {
    const files = watchedFiles();
    const spool = await openTestSpool(folder.path, { files });
    const reads = ['look', 'list', 'freeBytes'];
    expect(files.calls.filter((call) => !reads.includes(call)).at(-1)).toBe('syncFolder');
    expect(epochFolders()).toHaveLength(1);
    await spool.close();
  });

  it('syncs many turns at once in the background', async () => {
    const files = watchedFiles();
    // The time between two syncs passes when the test says so, however long the turns take.
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'] });
    const spool = await openTestSpool(folder.path, { files, fsyncMs: 40 });
    for (let turn = 0; turn < 5; turn++) await appendTurn(spool, [spooledRecord()]);
    expect(files.calls).not.toContain('syncData');
    vi.advanceTimersByTime(40);
    vi.useRealTimers();
    await until(() => files.calls.includes('syncFolder') && files.calls.includes('syncData'), {
      what: 'a sync',
    });
    expect(files.calls.filter((call) => call === 'syncData')).toHaveLength(1);
    await spool.close();
  });

  it('notifies an owner only after content and name of the file are durable if fsyncMs is 0', async () => {
    const files = watchedFiles();
    const spool = await openTestSpool(folder.path, { files, fsyncMs: 0 });
    await appendTurn(spool, [spooledRecord()]);
    expect(files.calls.slice(files.calls.indexOf('write'))).toEqual(['write', 'syncData', 'syncFolder']);
    await appendTurn(spool, [spooledRecord()]);
    expect(files.calls.slice(files.calls.lastIndexOf('write'))).toEqual(['write', 'syncData']);
    await spool.close();
  });

  it('is full at its bound of bytes, and refuses then', async () => {
    const spool = await openTestSpool(folder.path, { bytesMax: frameBytesMax + 1_000 });
    expect(spool.isFull).toBe(false);
    await appendTurn(spool, [spooledRecord()]);
    await appendTurn(spool, [spooledRecord()]);
    expect(spool.isFull).toBe(true);
    expect(() =>
      spool.append(
        inParts(spooledRecord()),
        ownerOf(() => undefined),
      ),
    ).toThrow('full spool');
    await spool.close();
  });

  describe('a void of a settlement', () => {
    const voidOf = ({ id, timestamp_ms }: SpooledRecord): SettlementVoid => ({
      voids: id as AttestationId,
      took: [1],
      amount_micro_usd: 5,
      timestamp_ms: timestamp_ms as UnixMillis,
    });
    const outcomeOf = (spool: Spool, entry: SettlementVoid) =>
      new Promise<string>((resolve) => {
        spool.appendVoid(entry, ownerOf(resolve));
      });

    it('is written in order among the records, and read again after a restart', async () => {
      const spool = await openTestSpool(folder.path);
      const [before, after] = [spooledRecord(), spooledRecord()];
      const outcomes = appendTurn(spool, [before]);
      const voided = outcomeOf(spool, voidOf(before));
      expect(await appendTurn(spool, [after])).toEqual(['written']);
      expect([await outcomes, await voided]).toEqual([['written'], 'written']);
      await spool.close();
      expect((await readOlderEpochs(folder.path))[0]?.items).toEqual([before, voidOf(before), after]);
    });

    it('is taken even if the spool is full for records', async () => {
      const spool = await openTestSpool(folder.path, { bytesMax: frameBytesMax + 1_000 });
      const records = [spooledRecord(), spooledRecord()];
      for (const record of records) await appendTurn(spool, [record]);
      expect(spool.isFull).toBe(true);
      const [first = spooledRecord()] = records;
      expect(await outcomeOf(spool, voidOf(first))).toBe('written');
      await spool.close();
      expect((await readOlderEpochs(folder.path))[0]?.items).toEqual([...records, voidOf(first)]);
    });

    it('fails, after its caller returned, if the turn or the spool takes no more', async () => {
      const spool = await openTestSpool(folder.path);
      const taken: string[] = [];
      while (!spool.isFull)
        spool.append(
          inParts(spooledRecord()),
          ownerOf((outcome) => taken.push(outcome)),
        );
      const entry = voidOf(spooledRecord());
      const voids: string[] = [];
      // What is left of the turn takes a few.
      for (let count = 0; count < 1_000; count++)
        spool.appendVoid(
          entry,
          ownerOf((outcome) => voids.push(outcome)),
        );
      expect(voids).toEqual([]);
      await until(() => voids.length === 1_000, { what: 'each owner is told' });
      expect(voids).toContain('failed');
      await spool.close();
      expect(await outcomeOf(spool, entry)).toBe('failed');
    });
  });

  it('counts bytes of earlier starts, and frees them once they are accepted', async () => {
    const earlier = await openTestSpool(folder.path);
    await appendTurn(earlier, [spooledRecord()]);
    await earlier.close();
    const spool = await openTestSpool(folder.path);
    expect(spool.bytes).toBe(earlier.bytes);
    const [old] = spool.epochs;
    if (old !== undefined) await spool.dropEpoch(old);
    expect(spool.bytes).toBe(0);
    expect(epochFolders()).toHaveLength(1);
    await spool.close();
  });

  it('is full if one turn exceeds the buffer, and free again in the next', async () => {
    const spool = await openTestSpool(folder.path);
    const outcomes: string[] = [];
    while (!spool.isFull)
      spool.append(
        inParts(spooledRecord()),
        ownerOf((outcome) => outcomes.push(outcome)),
      );
    expect(outcomes).toEqual([]);
    const count = spool.lastSeq;
    expect(count).toBeGreaterThan(limits.ingestRecordsMax);
    await until(() => outcomes.length === count, { what: 'the turn is written' });
    expect(spool.isFull).toBe(false);
    await spool.close();
  });

  it('is full while the disk hangs past the deadline of callers that wait for it', async () => {
    let release: () => void = () => undefined;
    const hanging = new Promise<void>((resolve) => {
      release = resolve;
    });
    const files = { ...nodeFiles, syncData: () => hanging };
    const spool = await openTestSpool(folder.path, { files, fsyncMs: 0 });
    const outcomes = appendTurn(spool, [spooledRecord()]);
    await until(() => spool.isFull, { what: 'the spool is full' });
    release();
    expect(await outcomes).toEqual(['written']);
    await until(() => !spool.isFull, { what: 'the spool is free' });
    await spool.close();
  });

  it('starts a new epoch each time, later by name, and keeps empty ones until their end is known', async () => {
    for (const records of [[spooledRecord()], [], [spooledRecord()]]) {
      const spool = await openTestSpool(folder.path);
      if (records.length > 0) await appendTurn(spool, records);
      await spool.close();
    }
    // A start that was killed before it had an origin.
    mkdirSync(join(folder.path, `00000004-${'e'.repeat(32)}`));
    const epochs = await readOlderEpochs(folder.path);
    expect(epochs.map(({ items }) => items.length)).toEqual([1, 0, 1]);
    expect(epochFolders().map((name) => name.slice(0, 8))).toEqual([
      '00000001',
      '00000002',
      '00000003',
      '00000004',
    ]);
    expect(epochFolders()[3]).not.toContain('eeee');
  });

  it('notifies the other owners when one of them throws', async () => {
    const spool = await openTestSpool(folder.path);
    let isTold = false;
    spool.append(inParts(spooledRecord()), {
      onWritten: () => {
        throw new Error('a bug of the owner');
      },
      onFailed: () => undefined,
    });
    spool.append(
      inParts(spooledRecord()),
      ownerOf(() => {
        isTold = true;
      }),
    );
    await until(() => isTold, { what: 'the second owner is told' });
    await spool.close();
  });

  it('writes pending records when it is closed, and takes no more', async () => {
    const spool = await openTestSpool(folder.path);
    const record = spooledRecord();
    let outcome = '';
    spool.append(
      inParts(record),
      ownerOf((settled) => {
        outcome = settled;
      }),
    );
    await spool.close();
    expect(outcome).toBe('written');
    expect(spool.isFull).toBe(true);
    expect((await readOlderEpochs(folder.path))[0]?.items).toEqual([record]);
  });

  describe('is certain of the end of an earlier start', () => {
    const originOf = () => join(folder.path, epochFolders()[0] ?? '', 'origin.json');
    const changeOrigin = (change: object) =>
      writeFileSync(
        originOf(),
        JSON.stringify({ ...JSON.parse(readFileSync(originOf(), 'utf8')), ...change }),
      );
    /** What a second process is certain of, after a first one was killed and this was done to its folder. */
    async function certainAfter(
      change: () => unknown,
      options: Partial<SpoolOptions> = {},
    ): Promise<boolean> {
      const killed = await openTestSpool(folder.path, options);
      await appendTurn(killed, [spooledRecord()]);
      // As the kernel ends it with the process.
      await killed.close();
      await change();
      const spool = await openTestSpool(folder.path);
      const certain = spool.epochs[0]?.isCertain === true;
      await spool.close();
      return certain;
    }

    it('within the same boot of the machine', async () => {
      expect(await certainAfter(() => undefined)).toBe(true);
    });

    it('not after a reboot, unless answers waited for the disk on the same machine', async () => {
      expect(await certainAfter(() => changeOrigin({ boot_id: 'another' }))).toBe(false);
      folder.remove();
      mkdirSync(folder.path);
      const isKnown = existsSync('/etc/machine-id') && readFileSync('/etc/machine-id', 'utf8').trim() !== '';
      expect(await certainAfter(() => changeOrigin({ boot_id: 'another' }), { fsyncMs: 0 })).toBe(isKnown);
      folder.remove();
      mkdirSync(folder.path);
      const elsewhere = { boot_id: 'another', machine_id: 'another' };
      expect(await certainAfter(() => changeOrigin(elsewhere), { fsyncMs: 0 })).toBe(false);
    });

    it('not of a copy', async () => {
      const copy = () => {
        const [epoch = ''] = epochFolders();
        renameSync(join(folder.path, epoch), join(folder.path, 'original'));
        cpSync(join(folder.path, 'original'), join(folder.path, epoch), { recursive: true });
      };
      expect(await certainAfter(copy)).toBe(false);
    });

    it.each([
      ['is missing', () => rmSync(originOf())],
      ['is cut off', () => writeFileSync(originOf(), readFileSync(originOf(), 'utf8').slice(0, 20))],
      ['says that another process may have written', () => changeOrigin({ is_sole: false })],
    ])('not where its origin %s', async (_what, change) => {
      expect(await certainAfter(change)).toBe(false);
    });

    it('not while its writer is alive', async () => {
      const alive = await openTestSpool(folder.path);
      await appendTurn(alive, [spooledRecord()]);
      const second = await openTestSpool(folder.path);
      expect(second.epochs[0]?.isCertain).toBe(false);
      await second.close();
      await alive.close();
    });
  });
});
