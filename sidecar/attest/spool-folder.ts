import { basename, dirname, join } from 'node:path';
import { assert } from '../../shared/errors/assert.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { StartError } from '../../shared/runtime/start-error.ts';
import { hasCode } from '../../shared/runtime/system-error.ts';
import { type EpochOrigin, isCertain, originFile, parseOrigin, thisMachine } from './epoch-origin.ts';
import type { SpoolFiles } from './spool-files.ts';
import { formBytes, frameZerosMax, isEarlierForm, parseSegmentName, segmentName } from './spool-segment.ts';

/**
 * Layout of a spool on disk:
 *
 *     spool/
 *       writer-21f0…9c.sock            the living writer listens here (hold-spool.ts)
 *       00000007-5f0c…e1/              an earlier start; deleted once the control plane has accepted it
 *                                      with its end
 *         origin.json                  where it was written (epoch-origin.ts)
 *         0000000000000001.seg         named by the number of its first record
 *         0000000000011842.seg
 *       00000008-a93b…04/              this start
 *         0000000000000001.seg
 *       quarantine/                    damaged bytes and unreadable segments, one file for each place; never
 *                                      deleted by the sidecar
 *       refused/                       records that the control plane refused, with the reason; never deleted
 *                                      by the sidecar
 *         5f0c…e1-42.jsonl             those of one answer, named by epoch and number of the first
 *       shipped/                       segments that the control plane has, kept for a while
 *                                      (kept-segments.ts)
 *
 * Starts are counted because the wall clock may go back between two of them. The random half is the epoch
 * known to the control plane: a folder restored from a backup never collides with a new one.
 */
export interface SpoolEpoch {
  /** 32 hex characters. */
  readonly epoch: string;
  readonly folder: string;
  /** In order. The writer appends, the shipper removes from the front. */
  readonly segments: SpoolSegment[];
  /** Of this start, while the spool is open: more may be written. Cleared by the spool. */
  isLive: boolean;
  /**
   * Its writer has ended or closed it, and its segments, unless damaged, hold each answered record: the rest
   * of its leases may be freed (EpochEnd). False while it is live.
   */
  isCertain: boolean;
}

export interface SpoolSegment {
  readonly path: string;
  /**
   * The writer's descriptor, which reaches the records even if the path is lost; null: read by path.
   */
  file: number | null;
  /** Nothing more will be written to it. */
  isEnded: boolean;
  readonly firstSeq: number;
  /** Found with zeros after `bytes`, as a killed writer leaves it (EpochWriter). */
  readonly hasHole: boolean;
  /** How far the file may be read. Only the writer changes it, after a successful write. */
  bytes: number;
}

export const quarantineFolder = (directory: string): string => join(directory, 'quarantine');
export const refusedFolder = (directory: string): string => join(directory, 'refused');

export const shippedFolder = (directory: string): string => join(directory, 'shipped');

/** The epoch of this folder; null: it is no epoch's. */
export const epochOfFolder = (folder: string): string | null =>
  epochFolderPattern.exec(basename(folder))?.[2] ?? null;

const epochFolderPattern = /^(\d{8})-([0-9a-f]{32})$/;

/**
 * The epochs of earlier starts whose end the control plane does not know yet, oldest first. Also removes
 * folders of failed starts and segments without a record, but only if this process holds the spool alone
 * (`isSole`): otherwise another process may just have begun them.
 */
export async function findEpochs(
  files: SpoolFiles,
  directory: string,
  { isSole }: { readonly isSole: boolean },
): Promise<SpoolEpoch[]> {
  const epochs: SpoolEpoch[] = [];
  for (const name of await files.list(directory)) {
    const epoch = epochOfFolder(name);
    if (epoch === null) continue;
    const folder = join(directory, name);
    const { segments, isOnDisk } = await findSegments(files, folder, { isSole });
    const origin = await readOrigin(files, folder);
    const here = files.look(folder);
    const isFromHere = here !== null && isCertain(origin, { ...thisMachine(), ...here, is_sole: isSole });
    if (segments.length > 0 || origin !== null) {
      epochs.push({ epoch, folder, segments, isLive: false, isCertain: isFromHere && isOnDisk });
    } else if (isSole) await removeUnused(files, folder);
  }
  return epochs;
}

/** Throws StartError if a segment has a format that this version does not read. Writes nothing. */
export async function refuseEarlierForms(files: SpoolFiles, epochs: readonly SpoolEpoch[]): Promise<void> {
  const head = Buffer.alloc(formBytes);
  for (const { path, firstSeq } of epochs.flatMap(({ segments }) => segments)) {
    // What the disk does not give back is for the reader to find.
    const read = await files.read(path, head, head.length, 0).catch(() => 0);
    if (isEarlierForm(head.subarray(0, read), firstSeq)) {
      throw new StartError(
        `${path} was written by a version before 0.2.0, which this version does not read. Start 0.2.0 with this DATA_DIR until it has shipped its spool (agent_trust_sidecar_spool_bytes is 0), stop it, and start this version again.`,
      );
    }
  }
}

/** Another starting process may be creating it. */
async function removeUnused(files: SpoolFiles, folder: string): Promise<void> {
  try {
    await removeEpochFolder(files, folder);
  } catch (error) {
    if (!hasCode(error, 'ENOTEMPTY')) throw error;
  }
}

async function readOrigin(files: SpoolFiles, folder: string): Promise<EpochOrigin | null> {
  const path = join(folder, originFile);
  const found = files.look(path);
  if (found === null || found.bytes > originBytesMax) return null;
  const content = Buffer.alloc(found.bytes);
  await files.read(path, content, content.length, 0);
  return parseOrigin(content.toString('utf8'));
}

/** A few ids and numbers. */
const originBytesMax = 4_096;

/** All its segments are removed. */
export async function removeEpochFolder(files: SpoolFiles, folder: string): Promise<void> {
  await files.removeFile(join(folder, originFile));
  await files.removeFolder(folder);
}

/**
 * Creates the folder of this start, later than all others. It survives a power cut once this resolves. If its
 * origin cannot be written, on a full disk, the start continues; then its leases stay counted until their
 * windows end.
 */
export async function createEpoch(
  files: SpoolFiles,
  directory: string,
  start: { readonly epoch: string; readonly isSyncedFirst: boolean; readonly isSole: boolean },
  logger: Logger,
): Promise<SpoolEpoch> {
  const { epoch } = start;
  assert(/^[0-9a-f]{32}$/.test(epoch), 'an epoch is found by the name of its folder again');
  await files.makeFolder(quarantineFolder(directory));
  await files.makeFolder(refusedFolder(directory));
  const startNumbers = (await files.list(directory)).map((name) =>
    Number(epochFolderPattern.exec(name)?.[1] ?? 0),
  );
  const startNumber = Math.max(0, ...startNumbers) + 1;
  const folder = join(directory, `${String(startNumber).padStart(8, '0')}-${epoch}`);
  await files.makeFolder(folder);
  await writeOrigin(files, folder, start).catch((error: unknown) => {
    logger.warn({ err: error, folder }, 'the origin of the spool could not be written');
  });
  await files.syncFolder(directory);
  // The folder of the spool itself may be new.
  await files.syncFolder(dirname(directory));
  return { epoch, folder, segments: [], isLive: true, isCertain: false };
}

async function writeOrigin(
  files: SpoolFiles,
  folder: string,
  { isSyncedFirst, isSole }: { readonly isSyncedFirst: boolean; readonly isSole: boolean },
): Promise<void> {
  const found = files.look(folder);
  if (found === null) throw new Error('the new folder was removed again');
  const { device, inode } = found;
  const origin: EpochOrigin = {
    ...thisMachine(),
    device,
    inode,
    is_synced_first: isSyncedFirst,
    is_sole: isSole,
  };
  await files.writeDurably(join(folder, originFile), Buffer.from(`${JSON.stringify(origin)}\n`));
}

export const segmentPath = (epoch: SpoolEpoch, firstSeq: number): string =>
  join(epoch.folder, segmentName(firstSeq));

interface FoundSegments {
  readonly segments: SpoolSegment[];
  /**
   * False: the disk fails, or the kernel has noted an earlier write-back error. A record may then have become
   * zeros, which look like a hole, or be gone after a power cut.
   */
  readonly isOnDisk: boolean;
}

/**
 * The segments of an epoch, in order. Syncs them and their names: a writer that was killed had answered what
 * it had not synced yet, and nothing else would before they are shipped.
 */
export async function findSegments(
  files: SpoolFiles,
  folder: string,
  { isSole }: { readonly isSole: boolean },
): Promise<FoundSegments> {
  const segments: SpoolSegment[] = [];
  let isOnDisk = true;
  for (const name of await files.list(folder)) {
    const firstSeq = parseSegmentName(name);
    if (firstSeq === null) continue;
    const path = join(folder, name);
    const size = await files.size(path);
    // What the disk does not give back is for the reader to find.
    const bytes = await findDataEnd(files, path, size).catch(() => size);
    const hasHole = bytes < size;
    if (!(await succeeds(files.syncFile(path)))) isOnDisk = false;
    if (bytes > 0) segments.push({ path, file: null, isEnded: true, firstSeq, hasHole, bytes });
    else if (isSole) await files.removeFile(path);
  }
  if (segments.length > 0 && !(await succeeds(files.syncFolder(folder)))) isOnDisk = false;
  return { segments, isOnDisk };
}

const succeeds = (work: Promise<void>): Promise<boolean> =>
  work.then(
    () => true,
    () => false,
  );

/** A partly filled segment takes at most 128 steps: some milliseconds. */
const dataEndStepBytes = 64 * 1024;

/**
 * How far a segment can hold records. A killed writer leaves a hole to the end of the file, which reads as
 * zeros. Up to `frameZerosMax` zeros are included, because a frame may end in them. Zeros followed by
 * anything else are left to the reader, which reports them as damage.
 */
async function findDataEnd(files: SpoolFiles, path: string, size: number): Promise<number> {
  const step = Buffer.allocUnsafe(Math.min(dataEndStepBytes, size));
  for (let end = size; end > 0; ) {
    const start = Math.max(0, end - step.length);
    const read = await files.read(path, step, end - start, start);
    if (read < end - start) return size;
    for (let at = read - 1; at >= 0; at--) {
      if (step[at] !== 0) return Math.min(size, start + at + 1 + frameZerosMax);
    }
    end = start;
  }
  return 0;
}
