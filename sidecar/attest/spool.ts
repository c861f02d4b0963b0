import { assert } from '../../shared/errors/assert.ts';
import { limits } from '../../shared/model/limits.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import type { Random } from '../../shared/runtime/random.ts';
import { renderSpooledRecord } from '../../shared/wire/spooled-record.ts';
import type { SpooledRecord } from '../../shared/wire/sync.ts';
import { type GroupCommit, groupCommit } from './group-commit.ts';
import { nodeFiles, type SpoolFiles } from './spool-files.ts';
import { createEpoch, findEpochs, type SpoolEpoch, type SpoolSegment, segmentPath } from './spool-folder.ts';
import { frameBytesMax, writeFrame } from './spool-segment.ts';

/** Whoever waits for a record to be safe before it answers. Exactly one of the two is called, once, never within `append`. */
export interface RecordOwner {
  /** The record will be in the log: the answer may name it. */
  onWritten(): void;
  /** The record must be taken as lost: answer 503 `overloaded`. It may turn up in the log all the same, as after any crash. */
  onFailed(): void;
}

/**
 * The sidecar's records on their way to the control plane: what an answer promises stands here first (decisions §9).
 *
 * Contract:
 * - Records are numbered from 1 in the order of `append`, and are shipped in that order.
 * - All records of one event-loop turn go to the file with one write at its end; their owners hear of it right after. From then on
 *   they survive the end of the process. They survive a power cut `fsyncMs` later; with 0, before their owners hear of it.
 * - A write that fails fails all records of its turn, and nothing is taken until the file is repaired.
 * - A failed fsync is final: what the kernel still holds is unknown, and asking again proves nothing. Nothing is taken until a restart.
 * - No token and nothing of a request but its hash is written.
 */
export interface Spool {
  /** No record is taken now: answer 503 `overloaded`, before anything is decided or charged. */
  readonly isFull: boolean;
  readonly state: SpoolState;
  /** On disk, with what was taken of a segment that is not deleted yet: what `isFull` is about. */
  readonly bytes: number;
  /** Of these, what the control plane has not taken yet. */
  readonly waitingBytes: number;
  /** The live epoch's. */
  readonly epoch: string;
  /** Records in this epoch, those of the present turn included. */
  readonly lastSeq: number;
  /** Oldest first; the last one is live. For the shipper. */
  readonly epochs: readonly SpoolEpoch[];
  readonly directory: string;
  readonly files: SpoolFiles;
  /** Takes a record. `isFull` was false in this event-loop turn; otherwise this throws. */
  append(record: SpooledRecord, owner: RecordOwner): void;
  /**
   * Deletes segments at the front of the oldest epoch, all of whose records were taken; and the epoch, if it is over and empty.
   * `bytesTaken`: of the segment that is first then.
   */
  dropTaken(epoch: SpoolEpoch, segmentCount: number, bytesTaken: number): Promise<void>;
  /** Writes and syncs what is there, then takes no more. The shipper may go on: all that it ships now is deleted. */
  close(): Promise<void>;
}

/**
 *     open ──write fails──> broken ──file cut back to its last good byte──> open
 *       │                     │
 *       └────fsync fails──────┴──> failed
 *     any ──close──> closed
 */
export type SpoolState = 'open' | 'broken' | 'failed' | 'closed';

export interface SpoolOptions {
  readonly directory: string;
  /** At most this long between a decision and its record on disk (SPOOL_FSYNC_MS); 0 = before every answer. */
  readonly fsyncMs: number;
  readonly random: Random;
  readonly logger: Logger;
  readonly files?: SpoolFiles;
  /** Default: those of model/limits. Tests make them small. */
  readonly segmentBytesMax?: number;
  readonly bytesMax?: number;
}

/** Opens the spool and starts a new epoch in it. Rejects where the folder cannot be used: a sidecar does not start without it. */
export async function openSpool(options: SpoolOptions): Promise<Spool> {
  const files = options.files ?? nodeFiles;
  // Damage is looked for by whoever reads, not here: a full spool would hold up the start for seconds, and reading is the normal
  // path through which everything is found and reported once.
  const older = await findEpochs(files, options.directory);
  const epoch = Buffer.from(options.random.bytes(16)).toString('hex');
  const live = await createEpoch(files, options.directory, epoch);
  return new FileSpool({ ...options, files }, [...older, live], live);
}

class FileSpool implements Spool {
  state: SpoolState = 'open';
  bytes = 0;
  /** Of the last record that was appended. Goes back when a write fails: those numbers are given again. */
  lastSeq = 0;
  readonly directory: string;
  readonly files: SpoolFiles;
  readonly epochs: SpoolEpoch[];

  readonly #live: SpoolEpoch;
  readonly #logger: Logger;
  readonly #segmentBytesMax: number;
  readonly #bytesMax: number;
  readonly #commit: GroupCommit;
  /** Owners hear of their records only after the fsync. */
  readonly #syncFirst: boolean;

  /** The frames of this turn. */
  readonly #turn = Buffer.allocUnsafe(limits.spoolTurnBytesMax);
  #turnBytes = 0;
  #turnOwners: RecordOwner[] = [];
  /** Of the oldest segment. Written by `dropTaken`. */
  #bytesTaken = 0;

  /** The segment that is written to, and its descriptor. Null before the first record and after a segment is full. */
  #segment: SpoolSegment | null = null;
  #file = -1;
  #repairInMs: number = limits.retryFirstMs;
  #repairTimer: NodeJS.Timeout | null = null;

  constructor(
    options: SpoolOptions & { readonly files: SpoolFiles },
    epochs: SpoolEpoch[],
    live: SpoolEpoch,
  ) {
    this.directory = options.directory;
    this.files = options.files;
    this.epochs = epochs;
    this.#live = live;
    this.#logger = options.logger;
    this.#segmentBytesMax = options.segmentBytesMax ?? limits.spoolSegmentBytesMax;
    this.#bytesMax = options.bytesMax ?? limits.spoolBytesMax;
    this.#syncFirst = options.fsyncMs === 0;
    this.#commit = groupCommit({
      files: options.files,
      folder: live.folder,
      fsyncMs: options.fsyncMs,
      logger: options.logger,
      onFailed: (error) => this.#fail(error),
    });
    for (const { segments } of epochs) for (const segment of segments) this.bytes += segment.bytes;
  }

  get isFull(): boolean {
    return (
      this.state !== 'open' ||
      // Owners wait for the disk: more of them would only wait longer.
      (this.#syncFirst && this.#commit.isHanging) ||
      this.#turnBytes + frameBytesMax > this.#turn.length ||
      this.bytes + this.#turnBytes + frameBytesMax > this.#bytesMax
    );
  }

  append(record: SpooledRecord, owner: RecordOwner): void {
    assert(!this.isFull, 'a record is appended only after isFull was looked at');
    const json = renderSpooledRecord(record);
    assert(json.length <= limits.spoolRecordCharsMax, 'a record has bounded fields');
    if (this.#turnBytes === 0) setImmediate(() => this.#endTurn());
    this.lastSeq += 1;
    this.#turnBytes = writeFrame(this.#turn, this.#turnBytes, this.lastSeq, json);
    this.#turnOwners.push(owner);
  }

  get epoch(): string {
    return this.#live.epoch;
  }

  get waitingBytes(): number {
    return this.bytes - this.#bytesTaken;
  }

  async dropTaken(epoch: SpoolEpoch, segmentCount: number, bytesTaken: number): Promise<void> {
    this.#bytesTaken = bytesTaken;
    const dropped = epoch.segments.splice(0, segmentCount);
    const isOver = !epoch.isLive && epoch.segments.length === 0;
    const place = this.epochs.indexOf(epoch);
    if (isOver && place >= 0) this.epochs.splice(place, 1);
    for (const segment of dropped) this.bytes -= segment.bytes;
    try {
      for (const segment of dropped) await this.files.removeFile(segment.path);
      if (isOver) await this.files.removeFolder(epoch.folder);
    } catch (error) {
      // The next start finds what is left, ships it again and hears that it is known.
      this.#logger.warn(
        { folder: epoch.folder, err: error },
        'a shipped part of the spool could not be deleted',
      );
    }
  }

  async close(): Promise<void> {
    this.#endTurn();
    if (this.#repairTimer !== null) clearTimeout(this.#repairTimer);
    if (this.state !== 'failed') this.state = 'closed';
    await this.#commit.finish();
    if (this.#segment !== null) this.files.close(this.#file);
    this.#segment = null;
    this.#live.isLive = false;
  }

  /** Writes the records of this turn with one call. */
  #endTurn(): void {
    const byteCount = this.#turnBytes;
    if (byteCount === 0) return;
    const owners = this.#turnOwners;
    this.#turnBytes = 0;
    this.#turnOwners = [];
    const isWritten = this.state === 'open' && this.#tryWrite(byteCount, this.lastSeq - owners.length + 1);
    if (!isWritten) {
      this.lastSeq -= owners.length;
      this.#tell(owners, 'onFailed');
      return;
    }
    if (this.#syncFirst) {
      this.#commit.wrote(this.#file, (outcome) =>
        this.#tell(owners, outcome === 'durable' ? 'onWritten' : 'onFailed'),
      );
    } else {
      this.#commit.wrote(this.#file, null);
      this.#tell(owners, 'onWritten');
    }
  }

  #tryWrite(byteCount: number, firstSeq: number): boolean {
    try {
      this.#write(byteCount, firstSeq);
      return true;
    } catch (error) {
      this.#break(error);
      return false;
    }
  }

  #write(byteCount: number, firstSeq: number): void {
    let segment = this.#segment;
    if (segment !== null && segment.bytes + byteCount > this.#segmentBytesMax && segment.bytes > 0) {
      this.#commit.closeAfterSync(this.#file);
      this.#segment = null;
      segment = null;
    }
    if (segment === null) {
      segment = { path: segmentPath(this.#live, firstSeq), firstSeq, bytes: 0 };
      this.#file = this.files.create(segment.path);
      this.#segment = segment;
      this.#commit.createdFile();
    }
    const written = this.files.write(this.#file, this.#turn, byteCount, segment.bytes);
    if (written !== byteCount)
      throw new Error(`wrote ${written} of ${byteCount} bytes: the disk may be full`);
    if (segment.bytes === 0) this.#live.segments.push(segment);
    segment.bytes += byteCount;
    this.bytes += byteCount;
    this.#repairInMs = limits.retryFirstMs;
  }

  #tell(owners: readonly RecordOwner[], outcome: keyof RecordOwner): void {
    for (const owner of owners) {
      try {
        owner[outcome]();
      } catch (error) {
        // One owner's bug must not keep the news from the others.
        this.#logger.error({ err: error }, 'the owner of a spooled record failed when told of it');
      }
    }
  }

  /** What the file holds behind its last good byte is unknown: part of the turn, all of it, or nothing. */
  #break(error: unknown): void {
    this.state = 'broken';
    this.#logger.error(
      { err: error, retryInMs: this.#repairInMs },
      'the spool cannot be written to; deciding stops',
    );
    this.#repairTimer = setTimeout(() => this.#repair(), this.#repairInMs).unref();
    this.#repairInMs = Math.min(this.#repairInMs * 2, limits.retryLastMs);
  }

  /**
   * Cuts the unknown end off, so that numbers that are given again stand in the file once. A crash before that leaves records
   * there that nobody was promised; the next start ships them.
   */
  #repair(): void {
    this.#repairTimer = null;
    if (this.state !== 'broken') return;
    try {
      if (this.#segment !== null) this.files.truncate(this.#file, this.#segment.bytes);
    } catch (error) {
      this.#break(error);
      return;
    }
    this.state = 'open';
    this.#logger.warn({}, 'the spool is repaired; deciding goes on');
  }

  #fail(error: unknown): void {
    this.state = 'failed';
    this.#logger.error(
      { err: error },
      'the spool cannot be synced to disk; no decision is made until a restart',
    );
  }
}
