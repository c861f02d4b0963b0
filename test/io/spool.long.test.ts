import { readdirSync, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { SpooledRecord } from '../../shared/wire/sync.ts';
import { frameHeaderBytes } from '../../sidecar/attest/spool-segment.ts';
import { runs } from '../support/runs.ts';
import {
  appendTurn,
  copyOfDisk,
  isVoid,
  openTestSpool,
  readOlderEpochs,
  type TemporaryFolder,
  temporarySpoolFolder,
} from '../support/spooled.ts';
import { spooledRecord } from '../support/spooled-record.ts';

/**
 * How many records each event-loop turn brings, and how large a segment may get: from one record each to all
 * in one.
 */
const history = fc.record({
  turns: fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 1, maxLength: 6 }),
  segmentBytesMax: fc.constantFrom(1, 1_500, 4_000, 1_000_000),
  fsyncMs: fc.constantFrom(0, 20),
});

/** Plays a history and ends it as `kill -9` would. Returns what was promised, and the disk as it is found. */
async function crashAfter(played: {
  readonly turns: readonly number[];
  readonly segmentBytesMax: number;
  readonly fsyncMs: number;
}): Promise<{ readonly records: SpooledRecord[]; readonly disk: TemporaryFolder }> {
  const folder = temporarySpoolFolder();
  const { segmentBytesMax, fsyncMs } = played;
  const spool = await openTestSpool(folder.path, { segmentBytesMax, fsyncMs });
  const records: SpooledRecord[] = [];
  for (const count of played.turns) {
    const turn = Array.from({ length: count }, () => spooledRecord());
    const outcomes = await appendTurn(spool, turn);
    expect(outcomes).toEqual(outcomes.map(() => 'written'));
    records.push(...turn);
  }
  const disk = copyOfDisk(folder);
  await spool.close();
  folder.remove();
  return { records, disk };
}

const segmentsOf = (disk: TemporaryFolder): string[] =>
  readdirSync(disk.path, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.seg'))
    .sort()
    .map((name) => join(disk.path, name));

describe('a spool that is opened again', () => {
  it('has every record whose owner was notified, in order, none twice', async () => {
    await fc.assert(
      fc.asyncProperty(history, async (played) => {
        const { records, disk } = await crashAfter(played);
        expect(await readOlderEpochs(disk.path)).toEqual([{ firstSeq: 1, items: records, damagedPlaces: 0 }]);
        disk.remove();
      }),
      { numRuns: runs({ short: 12, long: 1_200 }) },
    );
  });

  it('cut at any byte of its newest segment, has exactly the records before the cut', async () => {
    await fc.assert(
      fc.asyncProperty(history, fc.nat(), async (played, at) => {
        const { records, disk } = await crashAfter(played);
        const newest = segmentsOf(disk).at(-1) ?? '';
        const size = statSync(newest).size;
        truncateSync(newest, at % (size + 1));
        const recordBytes = frameHeaderBytes + JSON.stringify(records[0]).length;
        const lost = Math.ceil((size - (at % (size + 1))) / recordBytes);
        const left = records.slice(0, records.length - lost);
        const expected = left.length === 0 ? [] : [{ firstSeq: 1, items: left, damagedPlaces: 0 }];
        // An epoch that is left with nothing but a torn record is read as an empty one.
        const found = (await readOlderEpochs(disk.path)).filter(({ items }) => items.length > 0);
        expect(found).toEqual(expected);
        disk.remove();
      }),
      { numRuns: runs({ short: 15, long: 1_500 }) },
    );
  });

  it('with any byte changed, loses at most that record, keeps its bytes and gives up its number', async () => {
    await fc.assert(
      fc.asyncProperty(
        history,
        fc.nat(),
        fc.nat(),
        fc.integer({ min: 1, max: 255 }),
        async (played, which, at, bits) => {
          const { records, disk } = await crashAfter(played);
          const segments = segmentsOf(disk);
          const segment = segments[which % segments.length] ?? '';
          const content = readFileSync(segment);
          const place = at % content.length;
          content[place] = (content[place] ?? 0) ^ bits;
          writeFileSync(segment, content);

          const recordBytes = frameHeaderBytes + JSON.stringify(records[0]).length;
          const firstOfSegment = Number(/(\d+)\.seg$/.exec(segment)?.[1]) - 1;
          const victim = firstOfSegment + Math.floor(place / recordBytes);
          const isLast = victim === records.length - 1;
          const [found] = await readOlderEpochs(disk.path);
          const quarantined = readdirSync(join(disk.path, 'quarantine'));
          if (isLast) {
            // Nothing behind it tells damage from the torn end of a write.
            expect(found?.items ?? []).toEqual(records.slice(0, -1));
            expect(quarantined).toEqual([]);
          } else {
            expect(found?.items).toEqual(records.with(victim, { void: 'damaged', count: 1 } as never));
            expect(found?.damagedPlaces).toBe(1);
            expect(quarantined).toHaveLength(1);
            expect(statSync(join(disk.path, 'quarantine', quarantined[0] ?? '')).size).toBe(recordBytes);
          }
          disk.remove();
        },
      ),
      { numRuns: runs({ short: 15, long: 1_500 }) },
    );
  });

  it('with a whole segment gone, gives up its numbers as missing', async () => {
    const { records, disk } = await crashAfter({ turns: [1, 1, 1, 1], segmentBytesMax: 1, fsyncMs: 20 });
    writeFileSync(segmentsOf(disk)[1] ?? '', '');
    const [found] = await readOlderEpochs(disk.path);
    expect(found?.items).toEqual([records[0], { void: 'missing', count: 1 }, records[2], records[3]]);
    expect(found?.items.filter(isVoid)).toHaveLength(1);
    disk.remove();
  });
});
