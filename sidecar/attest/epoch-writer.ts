import { assert } from '../../shared/errors/assert.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { type CommitOutcome, GroupCommit } from './group-commit.ts';
import { attestLimits } from './limits.ts';
import { type FileIdentity, isSameFile, type SpoolFiles } from './spool-files.ts';
import { type SpoolEpoch, type SpoolSegment, segmentPath } from './spool-folder.ts';

/**
 * Writes the segments of one epoch. Each stays open until it is dropped, so that its records can be shipped
 * even if its path is lost.
 *
 * A segment being written has the file size of a full one, with a hole after the last record that takes no
 * disk space. A write that extends the file would wait for milliseconds whenever the file system writes the
 * old length to its journal.
 *
 *     no segment ──write, probe──> writing ──full──> (next segment) ──endSegment──> no segment
 */
export class EpochWriter {
  readonly epoch: SpoolEpoch;
  readonly #files: SpoolFiles;
  readonly #commit: GroupCommit;
  readonly #segmentBytesMax: number;
  /** Identity of the epoch's folder at its creation. */
  readonly #folder: FileIdentity | null;
  /** The current segment, its descriptor and the identity of its file at creation. */
  #segment: SpoolSegment | null = null;
  #file = -1;
  #identity: FileIdentity | null = null;
  /** Size of its file, as long as the records end before it. */
  #size = 0;

  constructor(options: {
    readonly files: SpoolFiles;
    readonly epoch: SpoolEpoch;
    readonly fsyncMs: number;
    readonly segmentBytesMax: number;
    readonly logger: Logger;
    readonly onSyncFailed: (error: unknown) => void;
    readonly onSynced: (seconds: number) => void;
  }) {
    const { files, epoch, onSyncFailed } = options;
    this.epoch = epoch;
    this.#files = files;
    this.#segmentBytesMax = options.segmentBytesMax;
    this.#folder = files.look(epoch.folder);
    this.#commit = new GroupCommit({ ...options, folder: epoch.folder, onFailed: onSyncFailed });
  }

  /** An fsync has been running for longer than any caller waits. */
  get isHanging(): boolean {
    return this.#commit.isHanging;
  }

  /**
   * The path still leads to the open file, and no other process has changed its length. Throws if the disk
   * fails. One system call for all records of a turn.
   */
  get isGrounded(): boolean {
    const segment = this.#segment;
    if (segment === null) return isSameFile(this.#files.look(this.epoch.folder), this.#folder);
    const found = this.#files.look(segment.path);
    return isSameFile(found, this.#identity) && found?.bytes === Math.max(segment.bytes, this.#size);
  }

  /**
   * Appends the bytes; `firstSeq` is the number of their first record. Throws unless all are written; then
   * call `endSegment`.
   */
  write(bytes: Uint8Array, byteCount: number, firstSeq: number): void {
    assert(byteCount > 0, 'a turn with records has bytes');
    const full = this.#segment;
    if (full !== null && full.bytes > 0 && full.bytes + byteCount > this.#segmentBytesMax) {
      this.#endAtLastRecord(full);
    }
    const segment = this.#segment ?? this.#create(firstSeq);
    this.#writeAt(bytes, byteCount, segment.bytes);
    if (segment.bytes === 0) this.epoch.segments.push(segment);
    segment.bytes += byteCount;
  }

  /** Makes written records durable; see GroupCommit. */
  sync(onSettled: ((outcome: CommitOutcome) => void) | null): void {
    this.#commit.wrote(this.#file, onSettled);
  }

  /**
   * Ends the segment at its last good byte after a failed write. So reused numbers are in the file once, and
   * the segment can be dropped once it is shipped. A crash before this leaves unacknowledged records in it.
   * The new end is durable no later than the next record: after a power cut the failed bytes would be back,
   * and be taken for the records that have their numbers by then.
   */
  endSegment(): void {
    const segment = this.#segment;
    if (segment === null) return;
    this.#endAtLastRecord(segment);
    if (segment.bytes === 0) this.#commit.closeAfterSync(this.#file);
    else this.#commit.wrote(this.#file, null);
  }

  /**
   * Begins the next segment, with `firstSeq` as the number of its first record. Throws unless it can hold
   * `attestLimits.spoolProbeBytes`.
   */
  probe(firstSeq: number): void {
    this.#create(firstSeq);
    try {
      this.#writeAt(Buffer.alloc(attestLimits.spoolProbeBytes), attestLimits.spoolProbeBytes, 0);
    } finally {
      this.#files.truncate(this.#file, 0);
      this.#size = 0;
    }
  }

  /** Closes a deleted segment once its content is on disk. */
  release(segment: SpoolSegment): void {
    if (segment.file !== null) this.#commit.closeAfterSync(segment.file);
    segment.file = null;
  }

  /**
   * Ends writing. Segments stay open until they are dropped, because a reader may be in the middle of one.
   */
  async close(): Promise<void> {
    const segment = this.#segment;
    if (segment !== null) {
      try {
        this.#endAtLastRecord(segment);
      } catch {
        // Readers skip the hole.
        segment.isEnded = true;
        this.#segment = null;
      }
      if (segment.bytes === 0) this.release(segment);
    }
    await this.#commit.finish();
  }

  #create(firstSeq: number): SpoolSegment {
    const last = this.epoch.segments.at(-1);
    assert(last === undefined || last.firstSeq < firstSeq, 'a segment begins after the one before it');
    const path = segmentPath(this.epoch, firstSeq);
    // A segment that was begun and got no record has the same name.
    if (this.#segment?.path === path) this.release(this.#segment);
    const file = this.#files.create(path);
    const segment: SpoolSegment = { path, file, isEnded: false, firstSeq, hasHole: false, bytes: 0 };
    this.#file = file;
    this.#segment = segment;
    this.#makeLong(file);
    this.#identity = this.#files.look(path);
    this.#size = this.#identity?.bytes ?? 0;
    this.#commit.createdFile();
    return segment;
  }

  /** If the file system refuses this, writes only get slower: each then extends the file. */
  #makeLong(file: number): void {
    try {
      this.#files.truncate(file, this.#segmentBytesMax);
    } catch {
      // What has become of the file is looked at next.
    }
  }

  #endAtLastRecord(segment: SpoolSegment): void {
    this.#files.truncate(this.#file, segment.bytes);
    segment.isEnded = true;
    this.#segment = null;
  }

  #writeAt(bytes: Uint8Array, byteCount: number, position: number): void {
    const written = this.#files.write(this.#file, bytes, byteCount, position);
    if (written !== byteCount)
      throw Object.assign(new Error(`wrote ${written} of ${byteCount} bytes: the disk may be full`), {
        code: 'ENOSPC',
      });
  }
}
