import { readFileSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { describe, expect, it } from 'vitest';
import { must } from '../../shared/errors/assert.ts';
import { dayMs } from '../../shared/model/time.ts';
import type { SpooledRecord } from '../../shared/wire/sync/sync.ts';
import { attestLimits } from '../../sidecar/attest/limits.ts';
import type { Spool } from '../../sidecar/attest/spool.ts';
import { nodeFiles, type SpoolFiles } from '../../sidecar/attest/spool-files.ts';
import { type TemporaryFolder, temporaryFolder } from '../support/base/temporary-folder.ts';
import { until } from '../support/base/until.ts';
import { appendTurn, copyOfDisk, isVoid, openTestSpool, readOlderEpochs } from '../support/data/spooled.ts';
import { inParts, spooledRecord } from '../support/data/spooled-record.ts';
import { type Fault, faultyFiles } from '../support/peers/faulty-files.ts';

/** Three turns over three segments: every kind of file operation a running spool does. */
const turns = [3, 3, 3];
const recordsPerSegment = 3;
const segmentBytesMax = recordsPerSegment * 800;
/** A loop that never meets its fault has gone past the last operation; one that goes on for ever is a bug. */
const operationsMax = 60;

interface Outcome {
  readonly opened: boolean;
  readonly written: readonly SpooledRecord[];
  readonly appended: readonly SpooledRecord[];
  /** What is found after the process was killed at the end. */
  readonly found: readonly SpooledRecord[];
  readonly hasFailed: boolean;
  readonly state: Spool['state'] | null;
}

/**
 * Plays the turns on a disk with the fault, kills the process, and reads what is there with a disk that
 * works.
 */
async function play(fault: Fault, fsyncMs: number): Promise<Outcome> {
  const folder = temporaryFolder();
  const files = faultyFiles(fault);
  const written: SpooledRecord[] = [];
  const appended: SpooledRecord[] = [];
  const spool = await openTestSpool(folder.path, { files, fsyncMs, segmentBytesMax }).catch(() => null);
  if (spool !== null) {
    for (const count of turns) {
      await until(() => !spool.isFull || spool.state === 'failed', {
        what: 'the spool is repaired or given up',
      });
      if (spool.isFull) break;
      const turn = Array.from({ length: count }, () => spooledRecord());
      appended.push(...turn);
      const outcomes = await appendTurn(spool, turn);
      written.push(...turn.filter((_, i) => outcomes[i] === 'written'));
    }
  }
  const disk = copyOfDisk(folder);
  const state = spool?.state ?? null;
  await spool?.close().catch(() => null);
  const [epoch] = await readOlderEpochs(disk.path);
  const items = epoch?.items ?? [];
  expect(items.filter(isVoid), 'nothing is reported as lost').toEqual([]);
  folder.remove();
  disk.remove();
  return {
    opened: spool !== null,
    written,
    appended,
    found: items.filter((item) => !isVoid(item)) as SpooledRecord[],
    hasFailed: files.hasFailed,
    state,
  };
}

/**
 * What must hold whatever failed: nothing promised is lost, nothing is there twice, nothing that was never
 * made is there.
 */
function expectNothingLost(outcome: Outcome, what: string): void {
  const ids = outcome.found.map(({ id }) => id);
  expect(new Set(ids).size, `${what}: none twice`).toBe(ids.length);
  const appendedIds = outcome.appended.map(({ id }) => id);
  expect(
    appendedIds.filter((id) => ids.includes(id)),
    `${what}: in order, and no stranger`,
  ).toEqual(ids);
  const foundById = new Map(outcome.found.map((record) => [record.id, record]));
  for (const record of outcome.written) {
    expect(must(foundById.get(record.id) ?? null, `${what}: ${record.id} was promised`)).toEqual(record);
  }
}

it.each([
  ['failed', 0],
  ['failed but persisted', 20],
  ['short', 0],
] as const)(
  'a spool whose one file operation "%s" loses no record that was acknowledged (fsync after %d ms)',
  async (mode, fsyncMs) => {
    for (let failAt = 1; ; failAt++) {
      expect(failAt).toBeLessThan(operationsMax);
      const outcome = await play({ failAt, failures: 1, mode }, fsyncMs);
      expectNothingLost(outcome, `operation ${failAt} ${mode}`);
      if (!outcome.hasFailed) {
        expect(outcome.written, 'without a fault everything is written').toEqual(outcome.appended);
        expect(outcome.appended).toHaveLength(9);
        break;
      }
    }
  },
);

describe('a spool whose disk', () => {
  it('fills up while shipped records are handed in again counts the bytes that are its own', async () => {
    const folder = temporaryFolder();
    let isFull = false;
    const files: SpoolFiles = {
      ...nodeFiles,
      write: (...args) => {
        if (isFull) throw Object.assign(new Error('full'), { code: 'ENOSPC' });
        return nodeFiles.write(...args);
      },
      removeNow: (path) => {
        nodeFiles.removeNow(path);
        isFull = false;
      },
    };
    const keeping = { ms: dayMs, bytesMax: attestLimits.keptBytesMax };
    const spool = await openTestSpool(folder.path, { files, keeping, segmentBytesMax: 600 });
    for (let n = 0; n < 3; n++) await appendTurn(spool, [spooledRecord()]);
    const epoch = must(spool.epochs[0], 'the live one');
    await spool.dropTaken(epoch, 2, 0);
    await spool.takeBack({ epoch });
    isFull = true;
    expect(await appendTurn(spool, [spooledRecord()]), 'a kept segment gives way').toEqual(['written']);
    await spool.dropTaken(epoch, 2, 0);
    expect(spool.bytes).toBe(epoch.segments.reduce((sum, { bytes }) => sum + bytes, 0));
    await spool.close();
    folder.remove();
  });

  it('stays broken accepts no record, fails those of the turn, and goes on after the repair', async () => {
    const folder = temporaryFolder();
    // A spool of one segment: open, then write for ever.
    const probe = faultyFiles({ failAt: Number.POSITIVE_INFINITY, failures: 0, mode: 'failed' });
    const sane = await openTestSpool(folder.path, { files: probe });
    await appendTurn(sane, [spooledRecord()]);
    const firstWrite = probe.calls.indexOf('write') + 1;
    await sane.close();
    folder.remove();

    const again = temporaryFolder();
    const files = faultyFiles({ failAt: firstWrite, failures: 3, mode: 'failed but persisted' });
    const spool = await openTestSpool(again.path, { files });
    expect(await appendTurn(spool, [spooledRecord(), spooledRecord()])).toEqual(['failed', 'failed']);
    expect(spool.state).toBe('broken');
    expect(spool.isFull).toBe(true);
    expect(() =>
      spool.append(inParts(spooledRecord()), { onWritten: () => undefined, onFailed: () => undefined }),
    ).toThrow();
    await until(() => spool.state === 'open', { what: 'the third try to repair works' });
    const later = spooledRecord();
    expect(await appendTurn(spool, [later])).toEqual(['written']);
    expect(spool.lastSeq).toBe(1);
    await spool.close();
    expect(await readOlderEpochs(again.path)).toEqual([{ firstSeq: 1, items: [later], damagedPlaces: 0 }]);
    again.remove();
  });

  it.each([0, 2])(
    'loses power after a failed write left its bytes keeps what was answered (fsync after %d ms)',
    async (fsyncMs) => {
      const folder = temporaryFolder();
      const disk = lazyDisk(folder);
      const spool = await openTestSpool(folder.path, { files: disk.files, fsyncMs });
      const [before, refused, after] = [spooledRecord(), spooledRecord(), spooledRecord()];
      expect(await appendTurn(spool, [before])).toEqual(['written']);
      disk.failsWrites = true;
      expect(await appendTurn(spool, [refused])).toEqual(['failed']);
      disk.failsWrites = false;
      await until(() => spool.state === 'open', { what: 'the repair' });
      expect(await appendTurn(spool, [after])).toEqual(['written']);
      await new Promise<void>((resolve) => spool.whenDurable(() => resolve()));
      const copy = disk.cutPower();
      await spool.close();
      const [epoch] = await readOlderEpochs(copy.path);
      expect(epoch).toEqual({ firstSeq: 1, items: [before, after], damagedPlaces: 0 });
      folder.remove();
      copy.remove();
    },
  );

  it('loses power after a kill keeps what was answered, once the next start is ready', async () => {
    const folder = temporaryFolder();
    const spool = await openTestSpool(folder.path, { fsyncMs: 3_600_000 });
    expect(await appendTurn(spool, [spooledRecord()])).toEqual(['written']);
    const killed = copyOfDisk(folder);
    const synced: string[] = [];
    const files: SpoolFiles = {
      ...nodeFiles,
      syncFile: async (path) => {
        await nodeFiles.syncFile(path);
        synced.push(path);
      },
      syncFolder: async (path) => {
        await nodeFiles.syncFolder(path);
        synced.push(path);
      },
    };
    const next = await openTestSpool(killed.path, { files });
    const [before] = next.epochs;
    const [segment] = must(before, 'the epoch of the killed process is there').segments;
    expect(synced).toEqual(expect.arrayContaining([segment?.path, before?.folder]));
    await next.close();
    await spool.close();
    folder.remove();
    killed.remove();
  });

  it('fails to sync is given up until a restart, and earlier records are still read', async () => {
    const folder = temporaryFolder();
    const files = faultyFiles({ failAt: Number.POSITIVE_INFINITY, failures: 0, mode: 'failed' });
    const spool = await openTestSpool(folder.path, {
      files: { ...files, syncData: () => Promise.reject(new Error('EIO')) },
      fsyncMs: 2,
    });
    const first = spooledRecord();
    expect(await appendTurn(spool, [first])).toEqual(['written']);
    await until(() => spool.state === 'failed', { what: 'the background sync fails' });
    expect(spool.isFull).toBe(true);
    await spool.close();
    expect(spool.state).toBe('failed');
    expect((await readOlderEpochs(folder.path))[0]?.items).toEqual([first]);
    folder.remove();
  });

  it('fails to sync releases no answer that waits for it', async () => {
    const folder = temporaryFolder();
    const files = faultyFiles({ failAt: Number.POSITIVE_INFINITY, failures: 0, mode: 'failed' });
    const spool = await openTestSpool(folder.path, {
      files: { ...files, syncData: () => Promise.reject(new Error('EIO')) },
      fsyncMs: 0,
    });
    expect(await appendTurn(spool, [spooledRecord(), spooledRecord()])).toEqual(['failed', 'failed']);
    expect(spool.state).toBe('failed');
    await spool.close();
    folder.remove();
  });
});

/**
 * Writes back what is written at once, as a kernel may, and the new length of a file that was cut only with
 * its sync.
 */
function lazyDisk(folder: TemporaryFolder) {
  const paths = new Map<number, string>();
  const durable = new Map<string, Buffer>();
  const writeBack = (file: number): void => {
    const path = paths.get(file);
    if (path !== undefined) durable.set(path, readFileSync(path));
  };
  const files: SpoolFiles = {
    ...nodeFiles,
    create: (path) => {
      const file = nodeFiles.create(path);
      paths.set(file, path);
      return file;
    },
    write: (file, bytes, length, position) => {
      const count = nodeFiles.write(file, bytes, length, position);
      writeBack(file);
      if (disk.failsWrites) throw Object.assign(new Error('EIO: i/o error, write'), { code: 'EIO' });
      return count;
    },
    syncData: async (file) => {
      await nodeFiles.syncData(file);
      writeBack(file);
    },
  };
  const disk = {
    files,
    /** A write fails, and all of it is there. */
    failsWrites: false,
    /** What is there after it. */
    cutPower: (): TemporaryFolder => {
      const copy = copyOfDisk(folder);
      for (const [path, content] of durable)
        writeFileSync(join(copy.path, relative(folder.path, path)), content);
      return copy;
    },
  };
  return disk;
}
