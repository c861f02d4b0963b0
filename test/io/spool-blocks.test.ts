import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { crc32 } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { must } from '../../shared/errors/assert.ts';
import { limits } from '../../shared/model/limits.ts';
import { silentLogger } from '../../shared/runtime/logger.ts';
import { StartError } from '../../shared/runtime/start-error.ts';
import type { SpooledRecord } from '../../shared/wire/sync/sync.ts';
import { BatchBuilder } from '../../sidecar/attest/batch.ts';
import { countWaiting } from '../../sidecar/attest/count-waiting.ts';
import { EpochReader } from '../../sidecar/attest/epoch-reader.ts';
import { attestLimits } from '../../sidecar/attest/limits.ts';
import type { Spool } from '../../sidecar/attest/spool.ts';
import { nodeFiles, type SpoolFiles } from '../../sidecar/attest/spool-files.ts';
import { findFrame, frameEnd, frameRecords } from '../../sidecar/attest/spool-segment.ts';
import { useFolder } from '../support/base/use.ts';
import { sampleId } from '../support/data/sample-chains.ts';
import { appendBacklog, appendTurn, openTestSpool, parseBody, settledTurn } from '../support/data/spooled.ts';
import { inParts, sharedParts, spooledRecord } from '../support/data/spooled-record.ts';
import { earlierSegment, earlierSharingSegment } from '../vectors/earlier-spool.ts';

const folder = useFolder();

const makeTurn = (count: number): SpooledRecord[] => Array.from({ length: count }, () => spooledRecord());

/** Each turn is one block, as long as it is small. */
async function spoolOf(turns: readonly (readonly SpooledRecord[])[]): Promise<Spool> {
  const spool = await openTestSpool(folder.path);
  for (const turn of turns) await appendTurn(spool, turn);
  return spool;
}

function readerOf(spool: Spool, windowBytes: number = attestLimits.spoolReadBytes): EpochReader {
  const epoch = must(spool.epochs[0], 'a spool has an epoch');
  const { files, directory } = spool;
  return new EpochReader(epoch, Buffer.alloc(windowBytes), { files, directory, logger: silentLogger });
}

/** Of all tests: it takes 2 MiB. */
const batch = new BatchBuilder();
const source = { sidecarId: sampleId('side', 1), connectionId: 'connection' };

/** The items of one batch, and moves the reader after it. */
async function nextBatch(reader: EpochReader, refused: ReadonlySet<number> = new Set()) {
  reader.position = await reader.fill(batch, refused);
  return batch.isEmpty ? [] : parseBody(batch.body(source)).records;
}

describe('the blocks of a spool', () => {
  it('are read whole wherever the window of the reader cuts them', async () => {
    const turns = [1, 3, 1, 2].map(makeTurn);
    const spool = await spoolOf(turns);
    const segment = must(spool.epochs[0]?.segments[0], 'one segment');
    // After the records the file has a hole.
    const content = readFileSync(segment.path).subarray(0, segment.bytes);
    const largest = frameEnd(content, frameEnd(content, 0, content.length), content.length);
    // From a window that holds the largest block to one that holds everything: each byte is cut once, those
    // of the headers too.
    for (let windowBytes = largest; windowBytes <= content.length; windowBytes++) {
      const reader = readerOf(spool, windowBytes);
      expect(await nextBatch(reader), `a window of ${windowBytes} bytes`).toEqual(turns.flat());
      expect(reader).toMatchObject({ isAtEnd: true, damagedPlaces: 0, tornBytes: 0 });
    }
    await spool.close();
  });

  it('are shipped in full batches, even if a batch ends in the middle of a block', async () => {
    // Long records fill a batch with bytes before they fill it with records.
    const found = ({ id }: SpooledRecord) =>
      Array.from({ length: 10 }, (_, n) => ({
        pointer: `/${id}/${n}${'p'.repeat(120)}`,
        type: 'email' as const,
      }));
    const turns = Array.from({ length: 4 }, () =>
      makeTurn(limits.ingestRecordsMax / 4).map((record) => ({ ...record, pii: found(record) })),
    );
    const records = turns.flat();
    const spool = await spoolOf(turns);
    const reader = readerOf(spool);
    const first = await nextBatch(reader);
    expect(first.length).toBeGreaterThan(attestLimits.spoolBlockRecordsMax);
    expect(first).toEqual(records.slice(0, first.length));
    expect(reader.position.seq).toBe(first.length + 1);
    expect(reader.isAtEnd).toBe(false);
    const rest: unknown[] = [];
    while (!reader.isAtEnd) rest.push(...(await nextBatch(reader)));
    expect(rest).toEqual(records.slice(first.length));
    await spool.close();
  });

  it('show when the next record was decided and how many wait, even in the middle of a block', async () => {
    const spool = await spoolOf([
      [5_000, 6_000, 7_000].map((timestamp_ms) => spooledRecord({ timestamp_ms })),
    ]);
    const reader = readerOf(spool);
    for (const [seq, decidedAtMs] of [
      [1, 5_000],
      [2, 6_000],
      [3, 7_000],
    ] as const) {
      reader.position = reader.positionOf(seq);
      expect(await reader.nextDecidedAtMs()).toBe(decidedAtMs);
      expect(await countWaiting(spool.files, spool.epochs, seq)).toBe(4 - seq);
    }
    await spool.close();
  });

  it('are lost alone if one of their bytes is damaged', async () => {
    const turns = [2, 3, 2].map(makeTurn);
    await (await spoolOf(turns)).close();
    const spool = await openTestSpool(folder.path);
    const { path } = must(spool.epochs[0]?.segments[0], 'one segment');
    const content = readFileSync(path);
    content[frameEnd(content, 0, content.length) + 300] = 0;
    writeFileSync(path, content);
    expect(await nextBatch(readerOf(spool))).toEqual([
      ...must(turns[0], 'a first turn'),
      { void: 'damaged', count: 3 },
      ...must(turns[2], 'a last turn'),
    ]);
    // A reader that begins in the middle of the damaged block loses what it still wanted of it.
    const resumed = readerOf(spool);
    resumed.position = resumed.positionOf(4);
    expect((await nextBatch(resumed))[0]).toEqual({ void: 'damaged', count: 2 });
    await spool.close();
  });
});

describe('records with shared parts', () => {
  const rendered = (records: readonly SpooledRecord[]) => records.map((record) => JSON.stringify(record));
  /** Of three passports and at two gates; each fifth is written as a whole. */
  const makeMixed = (count: number): SpooledRecord[] =>
    Array.from({ length: count }, (_, i) => {
      const passport_id = sampleId('pass', i % 3);
      return spooledRecord({ passport_id, chain_id: passport_id, gate_id: sampleId('gate', i % 2) });
    });

  async function mixedSpool(turns: readonly (readonly SpooledRecord[])[]): Promise<Spool> {
    const spool = await openTestSpool(folder.path);
    const parts = sharedParts();
    for (const turn of turns) {
      await settledTurn((owner) => {
        for (const [i, record] of turn.entries())
          spool.append(i % 5 === 4 ? inParts(record) : parts(record), owner());
      });
    }
    return spool;
  }

  it('are read and shipped like whole ones, from any record on and with any refused', async () => {
    const turns = [7, 1, 4].map(makeMixed);
    const records = turns.flat();
    const spool = await mixedSpool(turns);
    for (let seq = 1; seq <= records.length + 1; seq++) {
      const reader = readerOf(spool);
      reader.position = reader.positionOf(seq);
      expect(await nextBatch(reader), `from ${seq} on`).toEqual(records.slice(seq - 1));
      const refused = new Set([seq, seq + 2]);
      expect(await nextBatch(readerOf(spool), refused), `${seq} is refused`).toEqual(
        records.map((record, i) => (refused.has(i + 1) ? { void: 'refused', count: 1 } : record)),
      );
    }
    await spool.close();
  });

  it('follow one copy of their parts if consecutive blocks share the same', async () => {
    const [one, other] = [spooledRecord(), spooledRecord({ gate_id: sampleId('gate', 7) })];
    const turns = [[one], [one], [one], [other], [one]].map((turn) =>
      turn.map((record) => ({ ...record, id: spooledRecord().id })),
    );
    const spool = await openTestSpool(folder.path);
    for (const turn of turns) await appendBacklog(spool, turn);
    const reader = readerOf(spool);
    reader.position = await reader.fill(batch, new Set());
    const body = Buffer.from(batch.body(source));
    expect(parseBody(body).records).toEqual(turns.flat());
    const { records }: { records: object[] } = JSON.parse(body.toString());
    expect(records.map((item) => Number('chains' in item)).join('')).toBe('10001010');
    for (const [index, record] of turns.flat().entries())
      expect(JSON.parse(must(batch.recordText(index + 1), 'it is there'))).toEqual(record);
    await spool.close();
  });

  it('take less than two fifths of the room of whole ones', async () => {
    const records = Array.from({ length: 100 }, () => spooledRecord());
    const spool = await openTestSpool(folder.path);
    await appendBacklog(spool, records);
    expect(spool.bytes).toBeLessThan((rendered(records).join().length * 2) / 5);
    await spool.close();
  });

  it('show when the next one was decided, and are lost with their block if its parts are damaged', async () => {
    const turns = [3, 4].map(makeMixed);
    await (await mixedSpool(turns)).close();
    const spool = await openTestSpool(folder.path);
    const reader = readerOf(spool);
    reader.position = reader.positionOf(2);
    expect(await reader.nextDecidedAtMs()).toBe(turns[0]?.[1]?.timestamp_ms);
    const { path } = must(spool.epochs[0]?.segments[0], 'one segment');
    const content = readFileSync(path);
    const end = frameEnd(content, 0, content.length);
    const { partsStart } = frameRecords(content, 0, end);
    content[partsStart + 20] = 0;
    writeFileSync(path, content);
    expect(await nextBatch(readerOf(spool))).toEqual([
      { void: 'damaged', count: 3 },
      ...must(turns[1], 'a second turn'),
    ]);
    await spool.close();
  });
});

describe('a spool of a version before 0.2.0', () => {
  it.each([
    ['a frame for each record', earlierSegment],
    ['rows with the names of their members', earlierSharingSegment],
  ])('is refused with what to do, and left as it is: %s', async (_form, bytes) => {
    const epoch = join(folder.path, `00000001-${'a'.repeat(32)}`);
    const path = join(epoch, '0000000000000001.seg');
    mkdirSync(epoch);
    writeFileSync(path, bytes);
    const before = readdirSync(folder.path, { recursive: true });
    const opened = openTestSpool(folder.path);
    await expect(opened).rejects.toThrow(StartError);
    await expect(opened).rejects.toThrow(
      `${path} was written by a version before 0.2.0, which this version does not read. Start 0.2.0`,
    );
    expect(readFileSync(path)).toEqual(Buffer.from(bytes));
    expect(readdirSync(folder.path, { recursive: true })).toEqual(before);
  });
});

describe('damage in blocks of many records', () => {
  /** A spool of one segment, in which a bit of each block is wrong. */
  async function damagedSpool(count: number, files: SpoolFiles): Promise<Spool> {
    const earlier = await openTestSpool(folder.path);
    await appendBacklog(earlier, makeTurn(count));
    const { path } = must(earlier.epochs[0]?.segments[0], 'one segment');
    await earlier.close();
    const content = readFileSync(path);
    for (let at = 0; at < content.length; ) {
      const end = frameEnd(content, at, content.length);
      content.writeUInt8(content.readUInt8(at + 100) ^ 1, at + 100);
      at = end;
    }
    writeFileSync(path, content);
    return openTestSpool(folder.path, { files });
  }

  it('is skipped in steps, with requests answered in between', async () => {
    const spool = await damagedSpool(4_000, nodeFiles);
    const reader = readerOf(spool);
    let [turns, isRead] = [0, false];
    const filled = reader.fill(batch, new Set()).finally(() => {
      isRead = true;
    });
    for (; !isRead; turns++) await nextTurn();
    await filled;
    expect(reader.tornBytes).toBe(spool.bytes);
    expect(turns).toBeGreaterThan(spool.bytes / attestLimits.spoolStepBytes);
    await spool.close();
  });

  it('is searched once, however often a batch is retried', async () => {
    let reads = 0;
    const read: SpoolFiles['read'] = (...of) => {
      reads += 1;
      return nodeFiles.read(...of);
    };
    const spool = await damagedSpool(1_000, { ...nodeFiles, read });
    const reader = readerOf(spool);
    await reader.fill(batch, new Set());
    const readsOnce = reads;
    const end = await reader.fill(batch, new Set());
    expect(end.offset).toBe(spool.bytes);
    expect(reads).toBe(readsOnce);
    await spool.close();
  });

  it('does not cost a checksum per byte', async () => {
    const spool = await damagedSpool(1_000, nodeFiles);
    const { path } = must(spool.epochs[0]?.segments[0], 'one segment');
    const content = readFileSync(path);
    let checkedMs = Number.POSITIVE_INFINITY;
    let foundMs = Number.POSITIVE_INFINITY;
    for (let round = 0; round < 3; round++) {
      const startedMs = performance.now();
      for (let at = 1; at < content.length; at += 16)
        crc32(content.subarray(at, at + attestLimits.spoolBlockBytes));
      const checkedEndedMs = performance.now();
      expect(findFrame(content, 1, content.length, 0)).toBe(content.length);
      checkedMs = Math.min(checkedMs, checkedEndedMs - startedMs);
      foundMs = Math.min(foundMs, performance.now() - checkedEndedMs);
    }
    expect(foundMs).toBeLessThan(checkedMs);
    await spool.close();
  });
});
