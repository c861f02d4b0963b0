import { readdirSync, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { SpooledRecord } from '../../shared/wire/sync/sync.ts';
import { BlockWriter, frameBytesMax } from '../../sidecar/attest/spool-segment.ts';
import { runs } from '../support/base/runs.ts';
import { type TemporaryFolder, temporaryFolder } from '../support/base/temporary-folder.ts';
import { appendTurn, copyOfDisk, isVoid, openTestSpool, readOlderEpochs } from '../support/data/spooled.ts';
import { inParts, spooledRecord } from '../support/data/spooled-record.ts';

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
}): Promise<{
  readonly turns: SpooledRecord[][];
  readonly records: SpooledRecord[];
  readonly disk: TemporaryFolder;
}> {
  const folder = temporaryFolder();
  const { segmentBytesMax, fsyncMs } = played;
  const spool = await openTestSpool(folder.path, { segmentBytesMax, fsyncMs });
  const turns: SpooledRecord[][] = [];
  for (const count of played.turns) {
    const turn = Array.from({ length: count }, () => spooledRecord());
    const outcomes = await appendTurn(spool, turn);
    expect(outcomes).toEqual(outcomes.map(() => 'written'));
    turns.push(turn);
  }
  const disk = copyOfDisk(folder);
  await spool.close();
  folder.remove();
  return { turns, records: turns.flat(), disk };
}

/** How many bytes a turn takes: its records are one block, because they are few. */
function blockBytesOf(turn: readonly SpooledRecord[]): number {
  const writer = new BlockWriter(frameBytesMax);
  for (const [index, record] of turn.entries()) writer.addParts(index + 1, inParts(record));
  return writer.seal();
}

const segmentsOf = (disk: TemporaryFolder): string[] =>
  readdirSync(disk.path, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.seg'))
    .sort()
    .map((name) => join(disk.path, name));

const firstIndexOf = (segment: string): number => Number(/(\d+)\.seg$/.exec(segment)?.[1]) - 1;

/** Where the last record of the newest segment ends; after it is a hole. */
function dataEndOf(newest: string, turns: readonly (readonly SpooledRecord[])[]): number {
  let index = 0;
  let end = 0;
  for (const turn of turns) {
    if (index >= firstIndexOf(newest)) end += blockBytesOf(turn);
    index += turn.length;
  }
  return end;
}

describe('a reopened spool', () => {
  it('has every acknowledged record, in order, none twice', async () => {
    await fc.assert(
      fc.asyncProperty(history, async (played) => {
        const { records, disk } = await crashAfter(played);
        expect(await readOlderEpochs(disk.path)).toEqual([{ firstSeq: 1, items: records, damagedPlaces: 0 }]);
        disk.remove();
      }),
      { numRuns: runs({ short: 12, long: 1_200 }) },
    );
  });

  it('has exactly the turns before the cut if its newest segment is cut at any byte', async () => {
    await fc.assert(
      fc.asyncProperty(history, fc.nat(), async (played, at) => {
        const { turns, disk } = await crashAfter(played);
        const newest = segmentsOf(disk).at(-1) ?? '';
        // A hole follows, which may be cut off, too.
        const size = statSync(newest).size;
        const kept = at % (size + 1);
        truncateSync(newest, kept);
        for (let end = dataEndOf(newest, turns); end > kept; ) end -= blockBytesOf(turns.pop() ?? []);
        const left = turns.flat();
        const expected = left.length === 0 ? [] : [{ firstSeq: 1, items: left, damagedPlaces: 0 }];
        // An epoch that is left with nothing but a torn block is read as an empty one.
        const found = (await readOlderEpochs(disk.path)).filter(({ items }) => items.length > 0);
        expect(found).toEqual(expected);
        disk.remove();
      }),
      { numRuns: runs({ short: 15, long: 1_500 }) },
    );
  });

  it('loses at most the records of one turn to a changed byte, keeps their bytes and gives up their numbers', async () => {
    await fc.assert(
      fc.asyncProperty(
        history,
        fc.nat(),
        fc.nat(),
        fc.integer({ min: 1, max: 255 }),
        async (played, which, at, bits) => {
          const { turns, records, disk } = await crashAfter(played);
          const segments = segmentsOf(disk);
          const segment = segments[which % segments.length] ?? '';
          const content = readFileSync(segment);
          const place = at % content.length;
          content[place] = (content[place] ?? 0) ^ bits;
          writeFileSync(segment, content);

          if (segment === segments.at(-1) && place >= dataEndOf(segment, turns)) {
            const [found] = await readOlderEpochs(disk.path);
            expect(found).toEqual({ firstSeq: 1, items: records, damagedPlaces: 0 });
            disk.remove();
            return;
          }
          let first = firstIndexOf(segment);
          let victim: readonly SpooledRecord[] = [];
          for (let end = 0; end <= place; end += blockBytesOf(victim)) {
            first += victim.length;
            victim = turns.find(([record]) => record === records[first]) ?? [];
          }
          const rest = records.slice(first + victim.length);
          const [found] = await readOlderEpochs(disk.path);
          const quarantined = readdirSync(join(disk.path, 'quarantine'));
          if (rest.length === 0) {
            // Nothing after it tells damage from the torn end of a write.
            expect(found?.items ?? []).toEqual(records.slice(0, first));
            expect(quarantined).toEqual([]);
          } else {
            const lost = { void: 'damaged', count: victim.length };
            expect(found?.items).toEqual([...records.slice(0, first), lost, ...rest]);
            expect(found?.damagedPlaces).toBe(1);
            expect(quarantined).toHaveLength(1);
            const kept = statSync(join(disk.path, 'quarantine', quarantined[0] ?? '')).size;
            expect(kept).toBe(blockBytesOf(victim));
          }
          disk.remove();
        },
      ),
      { numRuns: runs({ short: 15, long: 1_500 }) },
    );
  });

  it('gives up the numbers of a lost segment as missing', async () => {
    const { records, disk } = await crashAfter({ turns: [1, 1, 1, 1], segmentBytesMax: 1, fsyncMs: 20 });
    writeFileSync(segmentsOf(disk)[1] ?? '', '');
    const [found] = await readOlderEpochs(disk.path);
    expect(found?.items).toEqual([records[0], { void: 'missing', count: 1 }, records[2], records[3]]);
    expect(found?.items.filter(isVoid)).toHaveLength(1);
    disk.remove();
  });
});
