import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { dayMs, secondMs, type UnixMillis } from '../../shared/model/time.ts';
import { systemClock } from '../../shared/runtime/clock.ts';
import { silentLogger } from '../../shared/runtime/logger.ts';
import type { SpooledRecord } from '../../shared/wire/sync/sync.ts';
import { attestLimits } from '../../sidecar/attest/limits.ts';
import { Shipper } from '../../sidecar/attest/shipper.ts';
import type { Spool, SpoolOptions } from '../../sidecar/attest/spool.ts';
import { nodeFiles, type SpoolFiles } from '../../sidecar/attest/spool-files.ts';
import { type TemporaryFolder, temporaryFolder } from '../support/base/temporary-folder.ts';
import { until } from '../support/base/until.ts';
import { ModelControlPlane } from '../support/data/model-control-plane.ts';
import { sampleId } from '../support/data/sample-chains.ts';
import { appendTurn, copyOfDisk, openTestSpool, random } from '../support/data/spooled.ts';
import { spooledRecord } from '../support/data/spooled-record.ts';

const keeping = { ms: dayMs, bytesMax: attestLimits.keptBytesMax };
const [first, second] = ['gen_1', 'gen_2'];

let folders: TemporaryFolder[];
let folder: TemporaryFolder;
let controlPlane: ModelControlPlane;
const shippers: Shipper[] = [];
let hurry: NodeJS.Timeout;
beforeEach(() => {
  folder = temporaryFolder();
  folders = [folder];
  controlPlane = new ModelControlPlane();
  // Their pauses end at once.
  hurry = setInterval(() => {
    for (const shipper of shippers) shipper.endPause();
  }, 2);
});
afterEach(async () => {
  clearInterval(hurry);
  await Promise.all(shippers.splice(0).map((shipper) => shipper.stop()));
  for (const { remove } of folders) remove();
});

/** Each record has a segment of its own. */
const open = (options: Partial<SpoolOptions> = {}, directory = folder.path) =>
  openTestSpool(directory, { segmentBytesMax: 600, keeping, ...options });

const takeHere = (body: Uint8Array) => controlPlane.take(body);

function ship(spool: Spool, take = takeHere): Shipper {
  const shipper = new Shipper({
    spool,
    client: {
      shipAttestations: async (body, onOver) => {
        onOver();
        return take(body);
      },
    },
    connection: () => ({ sidecarId: sampleId('side', 1), connectionId: 'connection-1' }),
    random,
    logger: silentLogger,
    shipIntervalMs: 2,
  });
  shippers.push(shipper);
  return shipper;
}

const makeRecords = (count: number): SpooledRecord[] => Array.from({ length: count }, () => spooledRecord());
const idsOf = (records: readonly { readonly id: string }[]) => records.map(({ id }) => id);
const keptFiles = (directory = folder.path) =>
  existsSync(join(directory, 'shipped'))
    ? readdirSync(join(directory, 'shipped'), { recursive: true, encoding: 'utf8' })
        .filter((name) => name.endsWith('.seg'))
        .sort()
    : [];

const readGeneration = ({ path }: TemporaryFolder) =>
  readFileSync(join(path, 'shipped', 'generation'), 'utf8').trim();

async function append(spool: Spool, records: readonly SpooledRecord[]): Promise<void> {
  for (const record of records) expect(await appendTurn(spool, [record])).toEqual(['written']);
}

/** A start of the sidecar that ships these to their end. */
async function shipToTheEnd(records: readonly SpooledRecord[], options: Partial<SpoolOptions> = {}) {
  const spool = await open(options);
  const shipper = ship(spool);
  shipper.noteGeneration(first);
  await append(spool, records);
  await spool.close();
  expect(await shipper.drain(20_000)).toBe(true);
  await shipper.stop();
}

/** A database that knows nothing any more. */
function restored(): ModelControlPlane {
  controlPlane = new ModelControlPlane();
  return controlPlane;
}

/** As one that was restored to when it had this many records of the epoch. */
function restoreTo(epoch: string, lastSeq: number, records: readonly SpooledRecord[]) {
  restored().lastSeqs.set(epoch, lastSeq);
  controlPlane.records.push(...records);
}

describe('shipped records', () => {
  it('are handed in once more when another generation has begun, in their order and exactly once', async () => {
    const [a, b, c] = [makeRecords(3), makeRecords(2), makeRecords(3)];
    await shipToTheEnd(a);
    await shipToTheEnd(b);
    const spool = await open();
    const shipper = ship(spool);
    shipper.noteGeneration(first);
    await append(spool, c);
    await until(() => controlPlane.records.length === 8, { what: 'all is shipped' });
    await until(() => keptFiles().length === 7, { what: 'all but the last is kept' });
    const bytes = spool.bytes;
    restored();
    shipper.noteGeneration(second);
    await until(() => controlPlane.records.length >= 8 && spool.kept.pendingCount === 0, {
      what: 'all is handed in',
    });
    shipper.noteGeneration(second);
    const [last] = makeRecords(1);
    await append(spool, last ? [last] : []);
    await until(() => controlPlane.records.length >= 9, { what: 'it goes on' });
    expect(idsOf(controlPlane.records)).toEqual(idsOf([...a, ...b, ...c, ...(last ? [last] : [])]));
    expect(controlPlane.voids).toEqual([]);
    expect(spool.waitingBytes).toBeGreaterThanOrEqual(0);
    expect(spool.bytes).toBeLessThan(bytes * 2);
    // Ends of epochs whose records are all there again, of which nothing certain is known.
    expect([...controlPlane.ends.values()]).toEqual([
      { nothing_lost: false, torn_bytes: 0 },
      { nothing_lost: false, torn_bytes: 0 },
    ]);
    await spool.close();
  });

  it('are handed in by the next start, too, and by the one after it where that was killed meanwhile', async () => {
    const [a, b] = [makeRecords(3), makeRecords(2)];
    await shipToTheEnd(a);
    await shipToTheEnd(b);
    restored();
    const written: string[] = [];
    const writeDurably: SpoolFiles['writeDurably'] = (path, content) => {
      written.push(path);
      return nodeFiles.writeDurably(path, content);
    };
    const killed = await open({ files: { ...nodeFiles, writeDurably } });
    const shipper = ship(killed, (body) => {
      if (controlPlane.records.length >= a.length) throw new Error('away');
      return controlPlane.take(body);
    });
    shipper.noteGeneration(second);
    await until(() => shipper.state === 'retrying', { what: 'the control plane is away in the middle' });
    // It hears of it again and again.
    shipper.noteGeneration(second);
    expect(written).toEqual([expect.stringContaining('origin.json')]);
    const copy = copyOfDisk(folder);
    folders.push(copy);
    await shipper.stop();
    await killed.close();
    const again = await open({}, copy.path);
    const shipperAgain = ship(again);
    shipperAgain.noteGeneration(second);
    await until(() => controlPlane.records.length >= 5, { what: 'all' });
    await until(() => readGeneration(copy) === second, { what: 'it is done' });
    expect(idsOf(controlPlane.records)).toEqual(idsOf([...a, ...b]));
    await shipperAgain.stop();
    await again.close();
    const done = await open({}, copy.path);
    expect(done.kept.isNews(second)).toBe(false);
    await done.close();
  });

  it('of the live epoch are shipped again where the database lacks them before a recovery, and what is kept no more is a stated gap', async () => {
    const records = makeRecords(6);
    const spool = await open();
    const shipper = ship(spool);
    shipper.noteGeneration(first);
    await append(spool, records);
    await until(() => controlPlane.records.length === 6, { what: 'all is shipped' });
    await until(() => keptFiles().length === 5, { what: 'all but the last is kept' });
    const [oldest] = keptFiles();
    rmSync(join(folder.path, 'shipped', oldest ?? ''));
    restoreTo(spool.epoch, 0, []);
    const [next] = makeRecords(1);
    await append(spool, next ? [next] : []);
    await until(() => controlPlane.records.length === 6, { what: 'all is there again' });
    expect(idsOf(controlPlane.records)).toEqual(idsOf([...records.slice(1), ...(next ? [next] : [])]));
    expect(controlPlane.voids).toMatchObject([{ void: 'missing', count: 1, seq: 1 }]);
    await spool.close();
  });

  it('are not handed in to the first generation that is heard of, nor to the same again', async () => {
    await shipToTheEnd(makeRecords(2));
    const before = controlPlane.batchSizes.length;
    const spool = await open();
    const shipper = ship(spool);
    shipper.noteGeneration(first);
    await append(spool, makeRecords(1));
    await until(() => controlPlane.records.length === 3, { what: 'it ships' });
    expect(controlPlane.batchSizes.length - before).toBe(1);
    await spool.close();
  });

  it('survive kill -9 between shipping and keeping, at each step', async () => {
    const records = makeRecords(4);
    const copies: TemporaryFolder[] = [];
    const noting =
      <Args extends readonly unknown[], Result>(step: (...args: Args) => Promise<Result>) =>
      async (...args: Args): Promise<Result> => {
        copies.push(copyOfDisk(folder));
        const result = await step(...args);
        copies.push(copyOfDisk(folder));
        return result;
      };
    const files = { ...nodeFiles, stamp: noting(nodeFiles.stamp), move: noting(nodeFiles.move) };
    await shipToTheEnd(records, { files });
    folders.push(...copies);
    expect(copies).toHaveLength(16);
    for (const copy of copies) {
      restored();
      const spool = await open({}, copy.path);
      const shipper = ship(spool);
      shipper.noteGeneration(second);
      await spool.close();
      expect(await shipper.drain(20_000)).toBe(true);
      const shipped = new Set(idsOf(controlPlane.records));
      // What the copy has not written yet is not of this test.
      expect(controlPlane.records).toHaveLength(shipped.size);
      expect(idsOf(records).filter((id) => !shipped.has(id))).toEqual([]);
      await shipper.stop();
    }
  });

  it('go when they are too old, the oldest of them when they are too many', async () => {
    let nowMs = systemClock.now();
    const clock = { ...systemClock, now: () => nowMs as UnixMillis, monotonic: systemClock.monotonic };
    await shipToTheEnd(makeRecords(3), { clock });
    nowMs = (nowMs + dayMs - secondMs) as UnixMillis;
    const spool = await open({ clock });
    expect(spool.kept.bytes).toBeGreaterThan(0);
    await spool.close();
    nowMs = (nowMs + secondMs) as UnixMillis;
    const later = await open({ clock });
    expect({ files: keptFiles(), bytes: later.kept.bytes }).toEqual({ files: [], bytes: 0 });
    expect(later.kept.dropped).toEqual({ age: 3, size: 0, disk_full: 0 });
    await later.close();
    const told: object[] = [];
    const logger = { ...silentLogger, warn: (of: object) => told.push(of) } as typeof silentLogger;
    await shipToTheEnd(makeRecords(4), { clock });
    const names = keptFiles();
    const sizes = (await open({ clock, keeping: { ...keeping, bytesMax: 1 }, logger })) as Spool;
    await sizes.close();
    expect(keptFiles()).toEqual([]);
    expect(told).toMatchObject(
      names.map((name) => ({ segment: expect.stringContaining(name), reason: 'size' })),
    );
  });

  it('of too many starts go, too: the control plane remembers as few', async () => {
    for (let start = 0; start < attestLimits.keptEpochsMax + 2; start++) await shipToTheEnd(makeRecords(1));
    expect(keptFiles()).toHaveLength(attestLimits.keptEpochsMax);
    const spool = await open();
    const shipper = ship(spool);
    restored();
    shipper.noteGeneration(second);
    await until(() => controlPlane.records.length === attestLimits.keptEpochsMax, { what: 'the newest' });
    await spool.close();
  });

  it('go before the spool refuses a record on a full disk', async () => {
    await shipToTheEnd(makeRecords(3));
    let isFull = false;
    const full = () => Object.assign(new Error('ENOSPC: no space left on device'), { code: 'ENOSPC' });
    const files = {
      ...nodeFiles,
      write: (...args: Parameters<typeof nodeFiles.write>) => {
        if (isFull && keptFiles().length > 0) throw full();
        return nodeFiles.write(...args);
      },
    };
    const spool = await open({ files });
    isFull = true;
    expect(keptFiles()).toHaveLength(3);
    expect(await appendTurn(spool, makeRecords(2))).toEqual(['written', 'written']);
    expect(spool).toMatchObject({ state: 'open', isFull: false });
    expect(spool.kept.dropped.disk_full).toBe(3);
    expect(keptFiles()).toEqual([]);
    await spool.close();
  });

  it('go while others need the disk', async () => {
    let free = attestLimits.keptFreeBytesMin;
    const files = { ...nodeFiles, freeBytes: async () => free };
    await shipToTheEnd(makeRecords(2), { files });
    expect(keptFiles()).toHaveLength(2);
    free -= 1;
    const spool = await open({ files });
    expect(keptFiles()).toEqual([]);
    await spool.close();
  });

  it('are handed in once where two processes share the folder', async () => {
    const records = makeRecords(3);
    await shipToTheEnd(records);
    restored();
    const spools = [await open(), await open()];
    for (const spool of spools) ship(spool).noteGeneration(second);
    await until(() => spools.every(({ kept }) => kept.pendingCount === 0), { what: 'both are done' });
    await until(() => controlPlane.records.length >= 3, { what: 'all is there' });
    expect(idsOf(controlPlane.records)).toEqual(idsOf(records));
    for (const spool of spools) await spool.close();
  });

  it('are deleted where nothing is to be kept', async () => {
    await shipToTheEnd(makeRecords(2), { keeping: { ms: 0, bytesMax: 0 } });
    expect(keptFiles()).toEqual([]);
  });
});
