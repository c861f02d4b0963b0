import { basename, dirname, join } from 'node:path';
import { assert } from '../../shared/errors/assert.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { minuteMs } from '../../shared/model/time.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { hasCode } from '../../shared/runtime/system-error.ts';
import { attestLimits } from './limits.ts';
import type { SpoolFiles } from './spool-files.ts';
import {
  epochOfFolder,
  findSegments,
  type SpoolEpoch,
  type SpoolSegment,
  shippedFolder,
} from './spool-folder.ts';
import { parseSegmentName } from './spool-segment.ts';

/** How long shipped segments are kept, and how many bytes of them. 0: not at all. */
export interface Keeping {
  readonly ms: number;
  readonly bytesMax: number;
}

export const nothingKept: Keeping = { ms: 0, bytesMax: 0 };

/** Why a kept segment went. `age` is the usual end. */
type DropReason = 'age' | 'size' | 'disk_full';

interface KeptSegment {
  readonly path: string;
  readonly bytes: number;
  readonly shippedAtMs: UnixMillis;
}

interface KeptOptions {
  /** Of the spool. */
  readonly directory: string;
  readonly keeping: Keeping;
  readonly files: SpoolFiles;
  readonly clock: Pick<Clock, 'now'>;
  readonly logger: Logger;
}

/**
 * Segments that the control plane has accepted, for the case that its database is restored to a time before
 * that (contract §17). They lie in `shipped/`, in folders named as those of their epochs were; a file's time
 * of modification is when it was shipped. A segment gets there by a rename, so that a crash leaves it in one
 * of the two places, and in the first it is shipped again.
 *
 *     kept ──a history begins that lacks it, perhaps──> taken back ──accepted again──> kept
 *       └──too old, too many, disk full──> removed
 *
 * The oldest go first: after `keeping.ms`, past `keeping.bytesMax`, of more than `attestLimits.keptEpochsMax`
 * epochs, and where the disk fills up, before the spool refuses a record. Times are of this machine's clock:
 * where it jumps, segments go earlier or later.
 */
export class KeptSegments {
  readonly dropped: Record<DropReason, number> = { age: 0, size: 0, disk_full: 0 };
  readonly #options: KeptOptions;
  readonly #folder: string;
  /** Oldest first. */
  #segments: KeptSegment[];
  #bytes = 0;
  /** Taken back and not accepted again yet, by path. */
  readonly #pending = new Set<string>();
  /** The history to which all of it is being handed in, once `#pending` is empty; null: none. */
  #next: string | null = null;
  /** The history to which all of it was handed in; null: not known yet. */
  #generation: string | null;
  #trimmedAtMs = Number.NEGATIVE_INFINITY;

  private constructor(
    options: KeptOptions,
    found: { readonly segments: KeptSegment[]; readonly generation: string | null },
  ) {
    this.#options = options;
    this.#folder = shippedFolder(options.directory);
    this.#segments = found.segments;
    this.#generation = found.generation;
    for (const { bytes } of found.segments) this.#bytes += bytes;
  }

  /** With what earlier starts have kept; what of it is too old is removed. */
  static async load(options: KeptOptions): Promise<KeptSegments> {
    const { directory, files } = options;
    const segments: KeptSegment[] = [];
    for (const folder of await keptFolders(files, directory)) {
      for (const name of await files.list(folder)) {
        if (parseSegmentName(name) === null) continue;
        const path = join(folder, name);
        const found = files.look(path);
        if (found !== null) segments.push({ path, bytes: found.bytes, shippedAtMs: found.modifiedAtMs });
      }
    }
    segments.sort((one, other) => one.shippedAtMs - other.shippedAtMs || (one.path < other.path ? -1 : 1));
    const kept = new KeptSegments(options, { segments, generation: await readGeneration(options) });
    await kept.trim();
    return kept;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Segments that are being handed in again. */
  get pendingCount(): number {
    return this.#pending.size;
  }

  /** Whether a history begins that may lack what is kept. The first one that is heard of has all of it. */
  isNews(generation: string): boolean {
    if (this.#generation === generation || this.#next === generation) return false;
    return this.#generation !== null || this.#segments.length > 0;
  }

  /** Nothing has to be handed in to this history, unless that is under way. */
  async note(generation: string): Promise<void> {
    if (this.#generation === generation || this.#next !== null) return;
    const { files, directory, logger } = this.#options;
    this.#generation = generation;
    const path = generationFile(directory);
    await files.writeDurably(path, Buffer.from(`${generation}\n`)).catch((error: unknown) => {
      // The next start hands everything in once more, which the control plane passes over.
      logger.warn({ err: error, path }, 'the generation of the shipped records could not be written');
    });
  }

  /** Keeps a segment that the control plane has accepted, or removes it. */
  async keep(epoch: SpoolEpoch, segment: SpoolSegment): Promise<void> {
    const { files, clock, logger, keeping } = this.#options;
    if (keeping.ms === 0 || keeping.bytesMax === 0) {
      await files.removeFile(segment.path);
      return;
    }
    const shippedAtMs = clock.now();
    const folder = join(this.#folder, basename(epoch.folder));
    const path = join(folder, basename(segment.path));
    try {
      await files.makeFolder(folder);
      await files.stamp(segment.path, shippedAtMs);
      await files.move(segment.path, path);
      this.#segments.push({ path, bytes: segment.bytes, shippedAtMs });
      this.#bytes += segment.bytes;
    } catch (error) {
      if (!hasCode(error, 'ENOENT'))
        logger.warn({ err: error, segment: segment.path }, 'a shipped segment could not be kept');
      await files.removeFile(segment.path);
    }
    this.#trimmedAtMs = Number.NEGATIVE_INFINITY;
    await this.trim();
  }

  /** Called every second; removes what is too old, or too much. */
  async trim(): Promise<void> {
    const { clock, keeping, files, directory } = this.#options;
    const nowMs = clock.now();
    if (nowMs - this.#trimmedAtMs < trimEveryMs && nowMs >= this.#trimmedAtMs) return;
    this.#trimmedAtMs = nowMs;
    const isLow = (await files.freeBytes(directory).catch(() => 0)) < attestLimits.keptFreeBytesMin;
    let room = isLow ? attestLimits.keptFreeBytesMin : 0;
    for (const segment of [...this.#segments]) {
      const reason = this.#reasonToDrop(segment, nowMs - keeping.ms, room > 0);
      if (reason === null) break;
      if (this.#pending.has(segment.path)) continue;
      if (reason === 'disk_full') room -= segment.bytes;
      this.#forget(segment, reason);
      await files.removeFile(segment.path).catch(() => undefined);
      // Fails while there are others in it.
      await files.removeFolder(dirname(segment.path)).catch(() => undefined);
    }
  }

  /**
   * Removes the oldest segments at once, as many bytes as a segment may have. False: there are none. The
   * disk is full, and a record waits: this is the one place that removes files on the event loop.
   */
  giveWay(): boolean {
    const { files } = this.#options;
    let freed = 0;
    for (const segment of [...this.#segments]) {
      if (freed >= attestLimits.spoolSegmentBytesMax) break;
      this.#forget(segment, 'disk_full');
      freed += Math.max(segment.bytes, 1);
      try {
        files.removeNow(segment.path);
      } catch {
        // The next one, then.
      }
    }
    return freed > 0;
  }

  /**
   * Puts kept segments before those of the spool, so that they are shipped again: all of them, for this
   * history, or those of one epoch. Between two steps of the shipper only.
   */
  async takeBack(
    epochs: SpoolEpoch[],
    of: { readonly generation: string } | { readonly epoch: SpoolEpoch },
  ): Promise<void> {
    const { files, directory, logger } = this.#options;
    const gone: SpoolEpoch[] = [];
    let count = 0;
    for (const folder of this.#foldersByAge) {
      const epoch = epochOfFolder(folder) ?? '';
      if ('epoch' in of && of.epoch.epoch !== epoch) continue;
      const { segments } = await findSegments(files, folder, { isSole: false });
      const fresh = segments.filter(({ path }) => !this.#pending.has(path));
      if (fresh.length === 0) continue;
      for (const { path } of fresh) this.#pending.add(path);
      count += fresh.length;
      const there = epochs.find((each) => each.epoch === epoch);
      if (there === undefined) gone.push({ epoch, folder, segments: fresh, isLive: false, isCertain: false });
      else {
        there.segments.push(...fresh);
        there.segments.sort((one, other) => one.firstSeq - other.firstSeq);
      }
    }
    // They were shipped to their end, so they came before all others.
    epochs.unshift(...gone);
    if (count > 0)
      logger.warn({ segments: count, directory }, 'records that were shipped before are handed in once more');
    if ('generation' in of) {
      this.#next = of.generation;
      await this.#noteIfDone();
    }
  }

  /** Also one that had to give way meanwhile: it is not of the bytes of the spool. */
  isTakenBack({ path }: SpoolSegment): boolean {
    return this.isFolder(dirname(path));
  }

  /** Whether this is a folder of kept segments, and not of the spool. */
  isFolder(folder: string): boolean {
    return dirname(folder) === this.#folder;
  }

  /** The control plane has accepted it again; it stays kept. */
  async noteHandedIn(segment: SpoolSegment): Promise<void> {
    this.#pending.delete(segment.path);
    await this.#noteIfDone();
  }

  async #noteIfDone(): Promise<void> {
    const next = this.#next;
    if (next === null || this.#pending.size > 0) return;
    this.#next = null;
    await this.note(next);
  }

  #reasonToDrop({ shippedAtMs }: KeptSegment, keptSinceMs: number, isDiskLow: boolean): DropReason | null {
    if (shippedAtMs <= keptSinceMs) return 'age';
    if (isDiskLow) return 'disk_full';
    const isTooMuch =
      this.#bytes > this.#options.keeping.bytesMax || this.#foldersByAge.length > attestLimits.keptEpochsMax;
    return isTooMuch ? 'size' : null;
  }

  #forget(segment: KeptSegment, reason: DropReason): void {
    if (!this.#segments.includes(segment)) return;
    this.#segments = this.#segments.filter((each) => each !== segment);
    this.#bytes -= segment.bytes;
    assert(this.#bytes >= 0, 'each kept segment is counted once');
    this.#pending.delete(segment.path);
    this.dropped[reason] += 1;
    const { path, bytes, shippedAtMs } = segment;
    if (reason !== 'age')
      this.#options.logger.warn(
        { segment: path, bytes, shipped_at_ms: shippedAtMs, reason },
        'a shipped segment is not kept any longer: its records could not be handed in after a restore',
      );
  }

  get #foldersByAge(): readonly string[] {
    return [...new Set(this.#segments.map(({ path }) => dirname(path)))];
  }
}

const trimEveryMs = minuteMs;

const generationFile = (directory: string): string => join(shippedFolder(directory), 'generation');

async function keptFolders(files: SpoolFiles, directory: string): Promise<readonly string[]> {
  const folder = shippedFolder(directory);
  const names = await files.list(folder);
  return names.filter((name) => epochOfFolder(name) !== null).map((name) => join(folder, name));
}

async function readGeneration({ files, directory }: KeptOptions): Promise<string | null> {
  const path = generationFile(directory);
  const found = files.look(path);
  if (found === null) return null;
  const content = Buffer.alloc(Math.min(found.bytes, generationBytesMax));
  await files.read(path, content, content.length, 0);
  return content.toString('utf8').trim();
}

const generationBytesMax = 128;
