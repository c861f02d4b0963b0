import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { limits } from '../../shared/model/limits.ts';
import { silentLogger } from '../../shared/runtime/logger.ts';
import type { ShipAnswer, SpooledRecord } from '../../shared/wire/sync/sync.ts';
import { attestLimits } from '../../sidecar/attest/limits.ts';
import { Shipper, type ShipperDeps } from '../../sidecar/attest/shipper.ts';
import type { Spool } from '../../sidecar/attest/spool.ts';
import { nodeFiles, type SpoolFiles } from '../../sidecar/attest/spool-files.ts';
import { until } from '../support/base/until.ts';
import { useFolder } from '../support/base/use.ts';
import { ModelControlPlane } from '../support/data/model-control-plane.ts';
import { sampleId } from '../support/data/sample-chains.ts';
import { appendBacklog, appendTurn, openTestSpool, random } from '../support/data/spooled.ts';
import { spooledRecord } from '../support/data/spooled-record.ts';
import { faultyFiles } from '../support/peers/faulty-files.ts';

const folder = useFolder();
let controlPlane: ModelControlPlane;
const shippers: Shipper[] = [];
/** Whose pauses end at once. */
const hurried: Shipper[] = [];
let hurry: NodeJS.Timeout;

beforeEach(() => {
  controlPlane = new ModelControlPlane();
  hurry = setInterval(() => {
    for (const shipper of hurried) shipper.endPause();
  }, 2);
});
afterEach(async () => {
  clearInterval(hurry);
  hurried.length = 0;
  await Promise.all(shippers.splice(0).map((shipper) => shipper.stop()));
});

/** A shipper that does not dawdle. `deliver` stands between it and the control plane. */
function ship(
  spool: Spool,
  change: Partial<ShipperDeps> & { readonly deliver?: (body: Uint8Array) => unknown } = {},
) {
  const shipper = new Shipper({
    spool,
    client: {
      shipAttestations: async (body, onOver) => {
        try {
          await change.deliver?.(body);
          return controlPlane.take(body);
        } finally {
          onOver();
        }
      },
    },
    connection: () => ({ sidecarId: sampleId('side', 1), connectionId: 'connection-1' }),
    random,
    logger: silentLogger,
    shipIntervalMs: 2,
    ...change,
  });
  shippers.push(shipper);
  if (change.shipIntervalMs === undefined) hurried.push(shipper);
  return shipper;
}

const makeRecords = (count: number): SpooledRecord[] => Array.from({ length: count }, () => spooledRecord());

/** An earlier start of the sidecar that shipped nothing. */
async function earlierStart(
  turns: readonly (readonly SpooledRecord[])[],
  segmentBytesMax = 1_000,
): Promise<void> {
  const spool = await openTestSpool(folder.path, { segmentBytesMax });
  for (const turn of turns) await appendTurn(spool, turn);
  await spool.close();
}

/** The same with many records, which a sidecar writes short. */
async function earlierBacklog(records: readonly SpooledRecord[]): Promise<void> {
  const spool = await openTestSpool(folder.path);
  await appendBacklog(spool, records);
  await spool.close();
}

const numbersUpTo = (last: number, count: number): number[] =>
  Array.from({ length: count }, (_, index) => last - index);

const segmentFiles = (): string[] =>
  readdirSync(folder.path, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.seg'))
    .sort();

/** By file: what each of its lines holds. */
function keptRefused(): Record<string, { readonly record: SpooledRecord }[]> {
  const refused = join(folder.path, 'refused');
  return Object.fromEntries(
    readdirSync(refused).map((name) => [
      name,
      readFileSync(join(refused, name), 'utf8')
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line)),
    ]),
  );
}

/** Long enough for a shipper to fill and send another batch. */
async function nextTurns(): Promise<void> {
  for (let i = 0; i < 50; i++) await nextTurn();
}

/** Closes the spool and ships what is left. */
async function finish(spool: Spool, shipper: Shipper): Promise<boolean> {
  await spool.close();
  return shipper.drain(20_000);
}

describe('shipper', () => {
  it('ships older epochs first, each in order, and deletes shipped segments', async () => {
    const [a, b, c] = [makeRecords(3), makeRecords(2), makeRecords(2)];
    await earlierStart([a.slice(0, 1), a.slice(1)]);
    await earlierStart([b]);
    const spool = await openTestSpool(folder.path);
    await appendTurn(spool, c);
    const shipper = ship(spool);
    await until(() => controlPlane.records.length === 7, { what: 'all is shipped' });
    expect(controlPlane.records).toEqual([...a, ...b, ...c]);
    expect(await finish(spool, shipper)).toBe(true);
    expect(readdirSync(folder.path).sort()).toEqual(['quarantine', 'refused']);
    expect(spool.bytes).toBe(0);
    expect(shipper).toMatchObject({ state: 'stopped', lastError: null, shippedRecords: 7, damagedPlaces: 0 });
  });

  it('counts nothing as waiting of a shipped segment, though its file stays', async () => {
    const spool = await openTestSpool(folder.path);
    await appendTurn(spool, makeRecords(3));
    expect(spool.waitingBytes).toBe(spool.bytes);
    const shipper = ship(spool);
    await until(() => spool.waitingBytes === 0, { what: 'all is taken' });
    expect(controlPlane.records).toHaveLength(3);
    expect(segmentFiles()).toHaveLength(1);
    expect(spool.bytes).toBeGreaterThan(0);
    await shipper.stop();
    const shippedBytes = spool.bytes;
    await appendTurn(spool, makeRecords(1));
    expect(spool.waitingBytes).toBe(spool.bytes - shippedBytes);
    await spool.close();
  });

  it('ships a backlog in full batches without a pause', async () => {
    const records = makeRecords(limits.ingestRecordsMax * 2 + 10);
    await earlierBacklog(records);
    const spool = await openTestSpool(folder.path);
    const shipper = ship(spool, { shipIntervalMs: 60_000 });
    await until(() => controlPlane.records.length === records.length, { what: 'all is shipped' });
    expect(controlPlane.batchSizes).toEqual([limits.ingestRecordsMax, limits.ingestRecordsMax, 10]);
    expect(controlPlane.records).toEqual(records);
    expect(await finish(spool, shipper)).toBe(true);
  });

  describe('with a backlog, sends the next batch while one is taken', () => {
    const backlog = async () => {
      const records = makeRecords(limits.ingestRecordsMax * 4 + 10);
      await earlierBacklog(records);
      return { records, spool: await openTestSpool(folder.path) };
    };
    /** `around` is given each call with its number, from 1. */
    function shipSlowly(
      spool: Spool,
      around: (call: number, take: () => ShipAnswer) => Promise<ShipAnswer>,
    ): { readonly shipper: Shipper; readonly most: () => number; readonly calls: () => number } {
      let calls = 0;
      let underWay = 0;
      let most = 0;
      const shipper = ship(spool, {
        client: {
          shipAttestations: async (body) => {
            calls += 1;
            underWay += 1;
            most = Math.max(most, underWay);
            try {
              return await around(calls, () => controlPlane.take(body));
            } finally {
              underWay -= 1;
            }
          },
        },
      });
      return { shipper, most: () => most, calls: () => calls };
    }
    const expectAll = async (records: readonly SpooledRecord[], spool: Spool, shipper: Shipper) => {
      await until(() => controlPlane.records.length === records.length, { what: 'all is shipped' });
      expect(await finish(spool, shipper)).toBe(true);
      expect(controlPlane.records).toEqual(records);
      expect(controlPlane.voids).toEqual([]);
      expect(shipper.voidedRecords).toEqual({ refused: 0, damaged: 0, missing: 0 });
      expect(shipper.shippedRecords).toBe(records.length);
    };

    it('two at most, and the first of a start alone', async () => {
      const { records, spool } = await backlog();
      const sizes: number[] = [];
      const { shipper, most } = shipSlowly(spool, async (_call, take) => {
        sizes.push(most());
        await nextTurns();
        return take();
      });
      await expectAll(records, spool, shipper);
      expect(sizes[0]).toBe(1);
      expect(most()).toBe(2);
    });

    it('and sends it alone where it came before the one that it follows', async () => {
      const { records, spool } = await backlog();
      const { shipper } = shipSlowly(spool, async (call, take) => {
        // The second batch is late, the third early.
        if (call === 2) await nextTurns();
        return take();
      });
      await expectAll(records, spool, shipper);
    });

    it.each([2, 3, 4])(
      'and loses and repeats nothing where call %i fails, before or after it is taken',
      async (failing) => {
        for (const isTaken of [false, true]) {
          folder.renew();
          controlPlane = new ModelControlPlane();
          const { records, spool } = await backlog();
          const { shipper } = shipSlowly(spool, async (call, take) => {
            await nextTurns();
            if (call === failing && !isTaken) throw new Error('socket hang up');
            const answer = take();
            if (call === failing) throw new Error('socket hang up');
            return answer;
          });
          await until(() => controlPlane.records.length === records.length, { what: 'all is shipped' });
          expect(await finish(spool, shipper)).toBe(true);
          expect(controlPlane.records).toEqual(records);
          expect(controlPlane.voids).toEqual([]);
        }
      },
    );
  });

  describe('uses the memory of a batch again', () => {
    /** The memory of each batch whose delivery fails, whatever `fail` does. */
    async function memoryOf(calls: number, fail: (onOver: () => void, call: number) => void) {
      const spool = await openTestSpool(folder.path);
      await appendTurn(spool, makeRecords(3));
      const used: ArrayBufferLike[] = [];
      const shipAttestations: ShipperDeps['client']['shipAttestations'] = async (body, onOver) => {
        used.push(body.buffer);
        fail(onOver, used.length);
        throw new Error('the control plane is away');
      };
      const shipper = ship(spool, { client: { shipAttestations } });
      const triesAgain = () => {
        shipper.endPause();
        return used.length >= calls;
      };
      await until(triesAgain, { what: `${calls} calls` });
      await shipper.stop();
      await spool.close();
      return new Set(used).size;
    }

    it('as soon as its call is over, though it failed', async () => {
      expect(await memoryOf(20, (onOver) => onOver())).toBe(1);
    });

    it('never where it may still be sent', async () => {
      expect(await memoryOf(4, (onOver, call) => (call === 2 ? undefined : onOver()))).toBe(2);
    });
  });

  it('keeps batches below the size of a body', async () => {
    // No record shares what was found with another.
    const piiOf = (of: number) =>
      Array.from({ length: 32 }, () => ({ pointer: `/${of}/${'x'.repeat(500)}`, type: 'email' }));
    const records = Array.from({ length: 300 }, (_, of) => spooledRecord({ pii: piiOf(of) }));
    await earlierStart([records.slice(0, 150), records.slice(150)], 10_000_000);
    const spool = await openTestSpool(folder.path);
    const shipper = ship(spool);
    await until(() => controlPlane.records.length === records.length, { what: 'all is shipped' });
    expect(controlPlane.batchSizes.length).toBeGreaterThan(1);
    expect(controlPlane.records).toEqual(records);
    expect(await finish(spool, shipper)).toBe(true);
  });

  it('after a restart sends at most one batch again, and the control plane takes none of it twice', async () => {
    const records = makeRecords(limits.ingestRecordsMax * 2 + 5);
    const first = await openTestSpool(folder.path);
    const firstShipper = ship(first);
    await appendBacklog(first, records.slice(0, -2));
    await until(() => firstShipper.shippedRecords === records.length - 2, { what: 'most are shipped' });
    await firstShipper.stop();
    await appendTurn(first, records.slice(-2));
    await first.close();

    controlPlane.batchSizes.length = 0;
    const second = await openTestSpool(folder.path);
    const shipper = ship(second);
    await until(() => controlPlane.records.length === records.length, { what: 'the others are shipped' });
    expect(controlPlane.records).toEqual(records);
    expect(controlPlane.batchSizes).toEqual([limits.ingestRecordsMax, 2]);
    expect(await finish(second, shipper)).toBe(true);
  });

  it.each(['failed', 'failed but persisted'] as const)(
    'loses and repeats nothing when any one file operation %s while it ships',
    async (mode) => {
      for (let failAt = 1; ; failAt++) {
        expect(failAt).toBeLessThan(60);
        folder.renew();
        controlPlane = new ModelControlPlane();
        const records = makeRecords(5);
        const [first, second] = records;
        await earlierStart([records.slice(0, 2), records.slice(2)]);
        controlPlane.refusedIds.add(second?.id ?? '');
        const files = faultyFiles({ failAt, failures: 1, mode });
        const spool = await openTestSpool(folder.path, { files }).catch(() => null);
        // A sidecar that cannot open its spool does not start; nothing is lost by that.
        if (spool === null) continue;
        const shipper = ship(spool);
        await until(() => controlPlane.records.length === 4, {
          what: `operation ${failAt}: all but one are taken`,
        });
        await spool.close().catch(() => null);
        await shipper.drain(5_000);
        expect(controlPlane.records, `operation ${failAt}`).toEqual([first, ...records.slice(2)]);
        expect(controlPlane.voids).toMatchObject([{ void: 'refused', count: 1, seq: 2 }]);
        if (!files.hasFailed) break;
      }
    },
  );

  it('keeps the refused records of an answer in a file with the reasons, and ships those around them', async () => {
    const records = makeRecords(4);
    controlPlane.refusedIds.add(records[1]?.id ?? '').add(records[2]?.id ?? '');
    const spool = await openTestSpool(folder.path);
    const shipper = ship(spool);
    await appendTurn(spool, records);
    await until(() => controlPlane.records.length === 2, { what: 'the good ones are shipped' });
    expect(controlPlane.records).toEqual([records[0], records[3]]);
    expect(controlPlane.voids).toMatchObject([
      { void: 'refused', count: 1, seq: 2 },
      { void: 'refused', count: 1, seq: 3 },
    ]);
    const [epoch] = [...controlPlane.lastSeqs.keys()];
    expect(keptRefused()).toEqual({
      [`${epoch}-2.jsonl`]: [
        { epoch, seq: 2, refused_because: 'not liked', record: records[1] },
        { epoch, seq: 3, refused_because: 'not liked', record: records[2] },
      ],
    });
    await until(() => shipper.voidedRecords.refused === 2, { what: 'the answer is noted' });
    expect(await finish(spool, shipper)).toBe(true);
  });

  it('keeps refused records that are more than a file may hold in several', async () => {
    const pii = Array.from({ length: limits.piiFindingsMax }, (_, i) => ({
      pointer: `/${'x'.repeat(limits.piiPointerCharsMax - 10)}${i}`,
      type: 'email',
    }));
    // They share what is long, so that a batch takes all of them.
    const records = Array.from({ length: 900 }, () => spooledRecord({ pii }));
    for (const { id } of records) controlPlane.refusedIds.add(id);
    await earlierBacklog(records);
    const spool = await openTestSpool(folder.path);
    const shipper = ship(spool);
    await until(() => controlPlane.voids.length === records.length, { what: 'all are given up' });
    expect(controlPlane.batchSizes[0]).toBe(records.length);
    const kept = Object.values(keptRefused());
    expect(kept.length).toBeGreaterThan(1);
    const ids = kept.flat().map(({ record }) => record.id);
    expect(ids.toSorted()).toEqual(records.map(({ id }) => id).toSorted());
    expect(await finish(spool, shipper)).toBe(true);
  });

  it('gives up the numbers of damaged records, keeps their bytes, and says how many', async () => {
    const records = makeRecords(4);
    await earlierStart(
      records.map((record) => [record]),
      10_000,
    );
    const segment = join(folder.path, segmentFiles()[0] ?? '');
    const content = readFileSync(segment);
    content[Math.floor(content.length / 2) - 20] = 0;
    writeFileSync(segment, content);
    const spool = await openTestSpool(folder.path);
    const shipper = ship(spool);
    await until(() => controlPlane.records.length === 3, { what: 'the good ones are shipped' });
    expect(controlPlane.records).toEqual([records[0], records[2], records[3]]);
    expect(controlPlane.voids).toMatchObject([{ void: 'damaged', count: 1, seq: 2 }]);
    expect(await finish(spool, shipper)).toBe(true);
    expect(shipper).toMatchObject({
      damagedPlaces: 1,
      voidedRecords: { damaged: 1, refused: 0, missing: 0 },
    });
    expect(readdirSync(join(folder.path, 'quarantine'))).toHaveLength(1);
  });

  it.each([
    ['a read error', async () => Promise.reject(new Error('EIO: i/o error, read'))],
    ['a file that has become shorter', async () => 0],
  ])('sets aside a segment with %s, and ships what comes after it', async (_what, read) => {
    const records = makeRecords(4);
    // Each record is a segment of its own.
    await earlierStart(
      records.map((record) => [record]),
      1,
    );
    const [, second = ''] = segmentFiles();
    const files: SpoolFiles = {
      ...nodeFiles,
      read: (file, ...rest) =>
        typeof file === 'string' && file.endsWith(second) ? read() : nodeFiles.read(file, ...rest),
    };
    const spool = await openTestSpool(folder.path, { files });
    const shipper = ship(spool);
    await until(() => controlPlane.records.length === 3, {
      what: 'the others are shipped',
    });
    expect(controlPlane.records).toEqual([records[0], records[2], records[3]]);
    expect(controlPlane.voids).toMatchObject([{ void: 'damaged', count: 1, seq: 2 }]);
    expect(await finish(spool, shipper)).toBe(true);
    expect(shipper).toMatchObject({ damagedPlaces: 1, voidedRecords: { damaged: 1 } });
    const [kept = ''] = readdirSync(join(folder.path, 'quarantine'));
    expect(readFileSync(join(folder.path, 'quarantine', kept), 'latin1')).toContain(records[1]?.id);
  });

  describe('with a sector that cannot be read in a segment of many blocks', () => {
    // After what is read at once.
    const badAt = attestLimits.spoolReadBytes + 100_000;
    const files: SpoolFiles = {
      ...nodeFiles,
      read: (file, buffer, length, position) =>
        position <= badAt && badAt < position + length
          ? Promise.reject(new Error('EIO: i/o error, read'))
          : nodeFiles.read(file, buffer, length, position),
    };

    it('after damaged bytes, gives up the records of its block and ships the others', async () => {
      const records = makeRecords(6_000);
      await earlierBacklog(records);
      const path = join(folder.path, segmentFiles()[0] ?? '');
      const content = readFileSync(path);
      content[100] = 0;
      writeFileSync(path, content);
      const spool = await openTestSpool(folder.path, { files });
      const [segment, ...others] = spool.epochs[0]?.segments ?? [];
      expect(others).toEqual([]);
      const shipper = ship(spool);
      await until(() => controlPlane.ends.size === 1, { what: 'the end is notified' });
      const given = controlPlane.voids.reduce((sum, { count }) => sum + count, 0);
      expect(controlPlane.voids.every((run) => run.void === 'damaged')).toBe(true);
      expect(controlPlane.records).toHaveLength(records.length - given);
      const lost = new Set(controlPlane.voids.flatMap(({ seq, count }) => numbersUpTo(seq, count)));
      expect(controlPlane.records).toEqual(records.filter((_, index) => !lost.has(index + 1)));
      expect(given).toBeLessThanOrEqual(attestLimits.spoolBlockRecordsMax * 3);
      expect([...controlPlane.ends.values()][0]?.nothing_lost).toBe(false);
      expect(await finish(spool, shipper)).toBe(true);
      const kept = readdirSync(join(folder.path, 'quarantine')).map((name) =>
        readFileSync(join(folder.path, 'quarantine', name)),
      );
      expect(kept.map(({ length }) => length)).toContain(segment?.bytes);
    });
  });

  it('goes back to the first record that the control plane lacks, and gives up only records that are gone', async () => {
    const records = makeRecords(6);
    const spool = await openTestSpool(folder.path, { segmentBytesMax: 1_300 });
    const shipper = ship(spool);
    for (const record of records.slice(0, 5)) await appendTurn(spool, [record]);
    await until(() => segmentFiles().length === 1, { what: 'what was taken is deleted' });
    const kept = Number(/(\d+)\.seg$/.exec(segmentFiles()[0] ?? '')?.[1]);
    // The control plane's database is restored from a backup of the time before all this.
    controlPlane.records.length = 0;
    controlPlane.lastSeqs.clear();
    await appendTurn(spool, records.slice(5));
    await until(() => controlPlane.records.length === records.length - kept + 1, {
      what: 'what is left is shipped',
    });
    expect(controlPlane.records).toEqual(records.slice(kept - 1));
    expect(controlPlane.voids).toMatchObject([{ void: 'missing', count: kept - 1 }]);
    expect(await finish(spool, shipper)).toBe(true);
  });

  it('stops when another process has taken over, and goes on when it connects anew', async () => {
    const spool = await openTestSpool(folder.path);
    let connectionId = 'connection-1';
    let looks = 0;
    const shipper = ship(spool, {
      connection: () => {
        looks += 1;
        return { sidecarId: sampleId('side', 1), connectionId };
      },
    });
    controlPlane.newestConnection = 'connection-2';
    await appendTurn(spool, makeRecords(2));
    await until(() => shipper.state === 'superseded', { what: 'it notices' });
    const calls = controlPlane.batchSizes.length;
    await appendTurn(spool, makeRecords(1));
    const looksThen = looks;
    await until(() => looks > looksThen + 3, { what: 'it has looked several times' });
    expect(controlPlane.batchSizes).toHaveLength(calls);
    connectionId = 'connection-2';
    await until(() => controlPlane.records.length === 3, { what: 'it goes on' });
    expect(shipper.state).toBe('shipping');
    expect(await finish(spool, shipper)).toBe(true);
  });

  it('does not wait for a drain that cannot succeed', async () => {
    const spool = await openTestSpool(folder.path);
    await appendTurn(spool, makeRecords(1));
    const shipper = ship(spool, { deliver: () => Promise.reject(new Error('ECONNREFUSED')) });
    await until(() => shipper.lastError !== null, { what: 'a first attempt' });
    await spool.close();
    expect(await shipper.drain(60)).toBe(false);
    expect(shipper.lastError).toBe('ECONNREFUSED');
    expect(segmentFiles()).toHaveLength(1);
  });

  it('ends a drain at once when nothing was written, even without a control plane', async () => {
    const spool = await openTestSpool(folder.path);
    const shipper = ship(spool, { connection: () => null });
    await spool.close();
    expect(await shipper.drain(60_000)).toBe(true);
  });

  it('ends a drain at once when another process has taken over', async () => {
    const spool = await openTestSpool(folder.path);
    await appendTurn(spool, makeRecords(1));
    controlPlane.newestConnection = 'connection-2';
    const shipper = ship(spool);
    await spool.close();
    expect(await shipper.drain(60_000)).toBe(false);
  });

  it('rejects an answer that claims records of this start which were never written', async () => {
    const spool = await openTestSpool(folder.path);
    const shipper = ship(spool, {
      client: { shipAttestations: async () => ({ kind: 'taken', nextSeq: 100 }) },
    });
    await appendTurn(spool, makeRecords(1));
    await until(() => shipper.state === 'retrying', { what: 'it objects' });
    expect(shipper.lastError).toMatch('which does not exist yet');
    expect(segmentFiles()).toHaveLength(1);
    await spool.close();
  });

  describe('notifies the end of an epoch', () => {
    const endOfOldest = () => [...controlPlane.ends.values()][0];
    const cutOff = (bytes: number) => {
      const segment = join(folder.path, segmentFiles().at(-1) ?? '');
      writeFileSync(segment, readFileSync(segment).subarray(0, -bytes));
    };
    /** Ships what an earlier start left, after this was done to it. */
    async function shipAfter(change: () => unknown): Promise<Shipper> {
      await earlierStart(makeRecords(4).map((record) => [record]));
      await change();
      const spool = await openTestSpool(folder.path);
      const shipper = ship(spool);
      await until(() => controlPlane.ends.size === 1, { what: 'the end is notified' });
      expect(await finish(spool, shipper)).toBe(true);
      return shipper;
    }

    it('with nothing lost, after all its records; and its own when it is closed', async () => {
      await shipAfter(() => undefined);
      expect(controlPlane.records).toHaveLength(4);
      expect([...controlPlane.ends.values()]).toEqual([
        { nothing_lost: true, torn_bytes: 0 },
        { nothing_lost: true, torn_bytes: 0 },
      ]);
      expect(readdirSync(folder.path).sort()).toEqual(['quarantine', 'refused']);
    });

    it('with the remains of a torn write, of which no client was told', async () => {
      const shipper = await shipAfter(() => cutOff(30));
      expect(controlPlane.records).toHaveLength(3);
      expect(endOfOldest()?.nothing_lost).toBe(true);
      expect(endOfOldest()?.torn_bytes).toBeGreaterThan(500);
      expect(shipper.tornEnds).toBe(1);
    });

    it.each([
      [
        'the last bytes are no beginning of a record',
        () => {
          const segment = join(folder.path, segmentFiles().at(-1) ?? '');
          const content = readFileSync(segment);
          content[content.length - 10] = 0;
          writeFileSync(segment, content);
        },
      ],
      [
        'a record in the middle is damaged',
        () => {
          const segment = join(folder.path, segmentFiles()[0] ?? '');
          const content = readFileSync(segment);
          content[100] = 0;
          writeFileSync(segment, content);
        },
      ],
    ])('without certainty where %s', async (_what, damage) => {
      await shipAfter(damage);
      expect(controlPlane.records).toHaveLength(3);
      expect(endOfOldest()?.nothing_lost).toBe(false);
    });

    it('also where nothing was decided in it, and again where the answer was lost', async () => {
      await (await openTestSpool(folder.path)).close();
      const spool = await openTestSpool(folder.path);
      let calls = 0;
      const shipper = ship(spool, {
        client: {
          shipAttestations: async (body) => {
            const answer = controlPlane.take(body);
            calls += 1;
            if (calls === 1) throw new Error('socket hang up');
            return answer;
          },
        },
      });
      await until(() => calls > 1, { what: 'a second try' });
      expect(endOfOldest()).toEqual({ nothing_lost: true, torn_bytes: 0 });
      expect(await finish(spool, shipper)).toBe(true);
      expect(readdirSync(folder.path).sort()).toEqual(['quarantine', 'refused']);
    });
  });
});
