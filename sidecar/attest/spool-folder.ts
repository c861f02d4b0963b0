import { dirname, join } from 'node:path';
import type { SpoolFiles } from './spool-files.ts';
import { parseSegmentName, segmentName } from './spool-segment.ts';

/**
 * How a spool lies on the disk:
 *
 *     spool/
 *       00000007-5f0c…e1/              an earlier start; goes when all of it was taken
 *         0000000000000001.seg         named by the number of its first record
 *         0000000000011842.seg
 *       00000008-a93b…04/              this start
 *         0000000000000001.seg
 *       quarantine/                    damaged bytes and unreadable segments, one file for each place; never deleted by the sidecar
 *       refused/                       records that the control plane refused, with its reason; never deleted either
 *
 * Starts are counted, because the wall clock may have gone back between two of them. The random half is the epoch that the
 * control plane knows: a folder that was copied back from a backup never meets a new one of the same name.
 */
export interface SpoolEpoch {
  /** 32 hex characters. */
  readonly epoch: string;
  readonly folder: string;
  /** In order. The writer appends, the shipper removes from the front. */
  readonly segments: SpoolSegment[];
  /** Of this start, and the spool is open: more may be written. The writer ends it. */
  isLive: boolean;
}

export interface SpoolSegment {
  readonly path: string;
  readonly firstSeq: number;
  /** How far the file may be read. Only the writer changes it, after a write that succeeded. */
  bytes: number;
}

export const quarantineFolder = (directory: string): string => join(directory, 'quarantine');
export const refusedFolder = (directory: string): string => join(directory, 'refused');

const epochFolderPattern = /^(\d{8})-([0-9a-f]{32})$/;

/** The epochs of earlier starts that still hold records, oldest first. Folders without any are removed on the way. */
export async function findEpochs(files: SpoolFiles, directory: string): Promise<SpoolEpoch[]> {
  const epochs: SpoolEpoch[] = [];
  for (const name of await files.list(directory)) {
    const epoch = epochFolderPattern.exec(name)?.[2];
    if (epoch === undefined) continue;
    const folder = join(directory, name);
    const segments = await findSegments(files, folder);
    if (segments.length > 0) epochs.push({ epoch, folder, segments, isLive: false });
    else await files.removeFolder(folder);
  }
  return epochs;
}

/** Makes the folder of this start, later than all others. It is found again after a power cut when this resolves. */
export async function createEpoch(files: SpoolFiles, directory: string, epoch: string): Promise<SpoolEpoch> {
  await files.makeFolder(quarantineFolder(directory));
  await files.makeFolder(refusedFolder(directory));
  const startNumbers = (await files.list(directory)).map((name) =>
    Number(epochFolderPattern.exec(name)?.[1] ?? 0),
  );
  const startNumber = Math.max(0, ...startNumbers) + 1;
  const folder = join(directory, `${String(startNumber).padStart(8, '0')}-${epoch}`);
  await files.makeFolder(folder);
  await files.syncFolder(directory);
  // The folder of the spool itself may be new.
  await files.syncFolder(dirname(directory));
  return { epoch, folder, segments: [], isLive: true };
}

export const segmentPath = (epoch: SpoolEpoch, firstSeq: number): string =>
  join(epoch.folder, segmentName(firstSeq));

async function findSegments(files: SpoolFiles, folder: string): Promise<SpoolSegment[]> {
  const segments: SpoolSegment[] = [];
  for (const name of await files.list(folder)) {
    const firstSeq = parseSegmentName(name);
    if (firstSeq === null) continue;
    const path = join(folder, name);
    const bytes = await files.size(path);
    if (bytes > 0) segments.push({ path, firstSeq, bytes });
    else await files.removeFile(path);
  }
  return segments;
}
