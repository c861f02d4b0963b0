import { readdirSync, statSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { must } from '../../shared/errors/assert.ts';
import type { SpooledRecord } from '../../shared/wire/sync/sync.ts';
import type { Spool, SpoolOptions } from '../../sidecar/attest/spool.ts';
import { nodeFiles, type SpoolFiles } from '../../sidecar/attest/spool-files.ts';
import type { TemporaryFolder } from '../support/base/temporary-folder.ts';
import { until } from '../support/base/until.ts';
import { useFolder } from '../support/base/use.ts';
import { appendTurn, copyOfDisk, openTestSpool, readOlderEpochs } from '../support/data/spooled.ts';
import { spooledRecord } from '../support/data/spooled-record.ts';

const segmentBytesMax = 10_000;

const folder = useFolder();

async function play(
  turns: number,
  options: Partial<SpoolOptions> = {},
): Promise<{ readonly spool: Spool; readonly records: readonly SpooledRecord[] }> {
  const spool = await openTestSpool(folder.path, { segmentBytesMax, ...options });
  const records: SpooledRecord[] = [];
  for (let turn = 0; turn < turns; turn += 1) {
    const added = [spooledRecord(), spooledRecord()];
    expect(await appendTurn(spool, added)).toEqual(['written', 'written']);
    records.push(...added);
  }
  return { spool, records };
}

const segmentsOf = (disk: TemporaryFolder): string[] =>
  readdirSync(disk.path, { recursive: true })
    .map(String)
    .filter((name) => name.endsWith('.seg'))
    .sort()
    .map((name) => join(disk.path, name));

/** As a killed writer leaves it. */
const withHole = (path: string): void => truncateSync(path, statSync(path).size + 100_000);

describe('the file of a segment', () => {
  it('has its full length while it is written, and takes no more disk space than its records', async () => {
    const { spool } = await play(1, { segmentBytesMax: 4 * 1024 * 1024 });
    const [path = ''] = segmentsOf(folder);
    const { size, blocks } = statSync(path);
    expect(size).toBe(4 * 1024 * 1024);
    expect(blocks * 512).toBeLessThan(64 * 1024);
    expect(spool.bytes).toBe(spool.epochs[0]?.segments[0]?.bytes);
    await spool.close();
  });

  it('ends with its last record when it is full, and when the spool is closed', async () => {
    const { spool } = await play(12, { segmentBytesMax: 4_000 });
    const segments = must(spool.epochs[0], 'it is live').segments;
    expect(segments.length).toBeGreaterThan(2);
    await spool.close();
    for (const { path, bytes } of segments) expect(statSync(path).size).toBe(bytes);
  });

  it('is checked for truncation and extension while it is written', async () => {
    for (const size of [0, segmentBytesMax - 1, segmentBytesMax + 1]) {
      const { spool } = await play(1);
      truncateSync(segmentsOf(folder).at(-1) ?? '', size);
      await until(() => spool.state === 'adrift', { what: 'it is noticed' });
      await spool.close();
      folder.renew();
    }
  });

  it('grows with each write if the file system refuses to extend it', async () => {
    const files: SpoolFiles = {
      ...nodeFiles,
      truncate: (file, length) => {
        if (length === segmentBytesMax) throw new Error('EOPNOTSUPP');
        nodeFiles.truncate(file, length);
      },
    };
    const { spool, records } = await play(12, { files });
    expect(spool.state).toBe('open');
    const [path = ''] = segmentsOf(folder);
    expect(statSync(path).size).toBeLessThanOrEqual(segmentBytesMax);
    const disk = copyOfDisk(folder);
    await spool.close();
    expect(await readOlderEpochs(disk.path)).toMatchObject([{ items: records, damagedPlaces: 0 }]);
    disk.remove();
  });
});

describe('the hole that a killed writer leaves', () => {
  it('leaves the end certain, unless the disk has lost a write', async () => {
    const { spool } = await play(2);
    await spool.close();
    withHole(segmentsOf(folder)[0] ?? '');
    const isCertain = async (files: SpoolFiles): Promise<boolean | undefined> => {
      const next = await openTestSpool(folder.path, { files });
      const older = next.epochs.find(({ isLive }) => !isLive);
      await next.close();
      return older?.isCertain;
    };
    const failing: SpoolFiles = { ...nodeFiles, syncFile: () => Promise.reject(new Error('EIO')) };
    expect(await isCertain(failing)).toBe(false);
    expect(await isCertain(nodeFiles)).toBe(true);
  });
});
