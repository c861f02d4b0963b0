/**
 * Room `sidecar/attest`: records on their way out: the spool here, over `epoch-writer.ts` and
 * `group-commit.ts`; `epoch-reader.ts` reads it, `shipper.ts` sends it.
 */

import { dirname } from 'node:path';
import { assert } from '../../shared/errors/assert.ts';
import { limits } from '../../shared/model/limits.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import type { Random } from '../../shared/runtime/random.ts';
import { hasCode } from '../../shared/runtime/system-error.ts';
import type { SettlementVoid, SpooledOutcome } from '../../shared/wire/sync/sync.ts';
import { EpochWriter } from './epoch-writer.ts';
import type { CommitOutcome } from './group-commit.ts';
import { holdSpool, type SpoolHold } from './hold-spool.ts';
import { type Keeping, KeptSegments, nothingKept } from './kept-segments.ts';
import { attestLimits } from './limits.ts';
import { nodeFiles, type SpoolFiles } from './spool-files.ts';
import {
  createEpoch,
  findEpochs,
  refuseEarlierForms,
  removeEpochFolder,
  type SpoolEpoch,
} from './spool-folder.ts';
import { BlockWriter, frameBytesMax, type RecordParts } from './spool-segment.ts';

/**
 * Waits for a record to be safe before it answers. Exactly one of the two is called, once, never
 * within `append`.
 */
export interface RecordOwner {
  /** The record will be in the log: the answer may name it. */
  onWritten(): void;
  /** Treat the record as lost: answer 503 `overloaded`. It may still reach the log, as after any crash. */
  onFailed(): void;
}

/**
 * Holds the sidecar's records until the control plane has them. A record is written before its answer is sent
 * (contract §9).
 *
 * Contract:
 * - Records are numbered from 1 in the order of `append`, and are shipped in that order.
 * - All records of one event-loop turn go to the file with one write at its end; their owners are notified
 *   right after. From then on they survive the end of the process. They survive a power cut `fsyncMs` later;
 *   with 0, before their owners are notified.
 * - A failed write fails all records of its turn. The spool takes no more until a probe was written.
 * - Each write first verifies that the path still leads to the file. If it does not, the turn fails, the
 * spool
 *   takes no more, and answered records are shipped from the open files.
 * - A failed fsync is final: the content of the kernel's buffers is unknown, and another fsync proves
 * nothing.
 *   The spool takes no more until a restart.
 * - Of a request only its hash is written, and never a token.
 */
export interface Spool {
  /** The spool takes no record now: answer 503 `overloaded` before anything is decided or charged. */
  readonly isFull: boolean;
  readonly state: SpoolState;
  /** Why the spool takes no record now; null if it does. */
  readonly lastError: string | null;
  /**
   * The spool has taken records for the last `attestLimits.spoolSteadyMs`, so that readiness does not flap
   * with a disk that fills up again and again.
   */
  readonly isSteady: boolean;
  /** Bytes on disk, shipped ones included until their segment is deleted. Compared with bytesMax. */
  readonly bytes: number;
  readonly bytesMax: number;
  /** Those of `bytes` that the control plane has not accepted yet. */
  readonly waitingBytes: number;
  /** Id of the live epoch. */
  readonly epoch: string;
  /** Turns that failed since the start: what their decisions took is on no record, and may be yet. */
  readonly failedTurns: number;
  /** Number of the last record in this epoch, the current turn included. */
  readonly lastSeq: number;
  /** Oldest first; the last one is live. For the shipper. */
  readonly epochs: readonly SpoolEpoch[];
  readonly directory: string;
  readonly files: SpoolFiles;
  /** Takes a record in parts that were made for this spool. Throws if `isFull`. */
  append(record: RecordParts, owner: RecordOwner): void;
  /**
   * Takes the void of a settlement even if the spool is full: voids must not get lost, and are few. If
   * nothing can be written now, its owner gets `onFailed`.
   */
  appendVoid(entry: SettlementVoid, owner: RecordOwner): void;
  /** Takes an outcome that a caller reports. Throws if `isFull`. */
  appendOutcome(entry: SpooledOutcome, owner: RecordOwner): void;
  /** Called once what is written by now is on disk, or may not be. */
  whenDurable(onSettled: (outcome: CommitOutcome) => void): void;
  /**
   * Drops accepted segments at the front of the oldest epoch; they are kept for a while (KeptSegments).
   * `bytesTaken`: accepted bytes of the next segment.
   */
  dropTaken(epoch: SpoolEpoch, segmentCount: number, bytesTaken: number): Promise<void>;
  /**
   * Drops the rest of a finished epoch once the control plane has accepted all its records and its end.
   */
  dropEpoch(epoch: SpoolEpoch): Promise<void>;
  readonly kept: Pick<KeptSegments, 'bytes' | 'dropped' | 'pendingCount' | 'isNews' | 'note'>;
  /**
   * Puts kept segments in front again, to be shipped once more: all, for this history, or those of one epoch.
   * Readers of epochs are out of date then.
   */
  takeBack(of: { readonly generation: string } | { readonly epoch: SpoolEpoch }): Promise<void>;
  /** Called with the duration of each fsync, in seconds. */
  readonly fsyncs: FsyncListener[];
  /**
   * Writes and syncs pending records, then takes no more. The shipper may continue; shipped segments are
   * deleted.
   */
  close(): Promise<void>;
}

/**
 *     open ──write fails──> broken ──segment ended, and a probe is written──> open
 *       ├──its folder is gone or was replaced──> adrift ──all is shipped, and a new folder is made──> open, in a new epoch
 *       └──fsync fails──> failed
 *     any but failed ──close──> closed ──its last fsync fails──> failed
 *
 * What happens to an open spool may also happen to a broken one.
 */
export type SpoolState = 'open' | 'broken' | 'adrift' | 'failed' | 'closed';

const statesAfter: Readonly<Record<SpoolState, readonly SpoolState[]>> = {
  open: ['broken', 'adrift', 'failed', 'closed'],
  broken: ['broken', 'open', 'adrift', 'failed', 'closed'],
  adrift: ['open', 'closed'],
  closed: ['failed'],
  failed: [],
};

type FsyncListener = (seconds: number) => void;

export interface SpoolOptions {
  readonly directory: string;
  /**
   * Longest time from a decision to its record on disk (SPOOL_FSYNC_MS); 0: on disk before every answer.
   */
  readonly fsyncMs: number;
  /** Of shipped segments. Default: they are deleted. */
  readonly keeping?: Keeping;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly files?: SpoolFiles;
  /** Default: those of model/limits. Tests make them small. */
  readonly segmentBytesMax?: number;
  readonly bytesMax?: number;
}

/**
 * Opens the spool and starts a new epoch. Rejects if the folder cannot be used: a sidecar does not start
 * without it.
 */
export async function openSpool(options: SpoolOptions): Promise<Spool> {
  const { directory, fsyncMs, clock, random, logger, files = nodeFiles, keeping = nothingKept } = options;
  await files.makeFolder(directory);
  const hold = await holdSpool(directory, random);
  if (!hold.isSole) logger.warn({ directory }, 'another process may write to this spool');
  try {
    // Damage is left to the reader: scanning a full spool would delay the start by seconds, and the reader
    // reports each place once.
    const older = await findEpochs(files, directory, hold);
    await refuseEarlierForms(files, older);
    const start = { epoch: newEpoch(random), isSyncedFirst: fsyncMs === 0, isSole: hold.isSole };
    const live = await createEpoch(files, directory, start, logger);
    const kept = await KeptSegments.load({ directory, keeping, files, clock, logger });
    return new FileSpool({ ...options, files }, [...older, live], { live, hold, kept });
  } catch (error) {
    await hold.release();
    throw error;
  }
}

const newEpoch = (random: Random): string => Buffer.from(random.bytes(16)).toString('hex');

class FileSpool implements Spool {
  /** Written by `#enter` alone, with the reason why the spool takes no record. */
  #state: SpoolState = 'open';
  #trouble: string | null = null;
  bytes = 0;
  failedTurns = 0;
  /** Goes back after a failed write: its numbers are reused. */
  lastSeq = 0;
  readonly directory: string;
  readonly files: SpoolFiles;
  readonly bytesMax: number;
  readonly epochs: SpoolEpoch[];
  readonly fsyncs: FsyncListener[] = [];
  readonly kept: KeptSegments;

  readonly #options: SpoolOptions & { readonly files: SpoolFiles };
  readonly #logger: Logger;
  readonly #hold: SpoolHold;
  /**
   * Writers of this process; the last one is live. Earlier ones lost their folder; their records are shipped
   * from open files.
   */
  readonly #writers = new Map<SpoolEpoch, EpochWriter>();
  #writer: EpochWriter;
  /** Owners are notified only after the fsync. */
  readonly #syncFirst: boolean;

  /** The records of this turn. */
  readonly #turn = new BlockWriter(attestLimits.spoolTurnBytesMax);
  #turnOwners: RecordOwner[] = [];
  /** Accepted bytes of the oldest segment. Written by `dropTaken`. */
  #bytesTaken = 0;

  readonly #look: NodeJS.Timeout;
  /** When the spool last took no records, on the monotonic clock. */
  #troubleAtMs = Number.NEGATIVE_INFINITY;
  #repairInMs: number = limits.retryFirstMs;
  #repairTimer: NodeJS.Timeout | null = null;

  constructor(
    options: SpoolOptions & { readonly files: SpoolFiles },
    epochs: SpoolEpoch[],
    {
      live,
      hold,
      kept,
    }: { readonly live: SpoolEpoch; readonly hold: SpoolHold; readonly kept: KeptSegments },
  ) {
    this.kept = kept;
    this.directory = options.directory;
    this.files = options.files;
    this.epochs = epochs;
    this.bytesMax = options.bytesMax ?? attestLimits.spoolBytesMax;
    this.#options = options;
    this.#logger = options.logger;
    this.#hold = hold;
    this.#syncFirst = options.fsyncMs === 0;
    this.#writer = this.#writerOf(live);
    for (const { segments } of epochs) for (const segment of segments) this.bytes += segment.bytes;
    this.#look = setInterval(() => this.#lookDown(), attestLimits.spoolLookMs).unref();
  }

  get state(): SpoolState {
    return this.#state;
  }

  #enter(state: SpoolState, trouble: string | null): void {
    assert(statesAfter[this.#state].includes(state), 'a spool changes its state as SpoolState lists');
    this.#state = state;
    this.#trouble = trouble;
  }

  get isFull(): boolean {
    return (
      this.#state !== 'open' ||
      // Owners wait for a hanging disk: new ones would only wait longer.
      (this.#syncFirst && this.#writer.isHanging) ||
      !this.#turn.hasRoom ||
      this.bytes + this.#turn.length + frameBytesMax > this.bytesMax
    );
  }

  get isSteady(): boolean {
    return !this.isFull && this.#options.clock.monotonic() - this.#troubleAtMs >= attestLimits.spoolSteadyMs;
  }

  append(record: RecordParts, owner: RecordOwner): void {
    assert(!this.isFull, 'a full spool takes no record');
    const { head, chain, outcome } = record;
    const bytes = head.length + chain.byteLength + outcome.byteLength;
    assert(bytes <= attestLimits.spoolRecordCharsMax, 'a record has bounded fields');
    this.#own(owner);
    this.#turn.addParts(this.lastSeq, record);
  }

  appendVoid(entry: SettlementVoid, owner: RecordOwner): void {
    if (this.#state === 'open' && this.#turn.hasRoom) this.#appendJson(JSON.stringify(entry), owner);
    else setImmediate(() => owner.onFailed());
  }

  appendOutcome(entry: SpooledOutcome, owner: RecordOwner): void {
    assert(!this.isFull, 'a full spool takes no outcome');
    this.#appendJson(JSON.stringify(entry), owner);
  }

  #appendJson(json: string, owner: RecordOwner): void {
    assert(json.length <= attestLimits.spoolRecordCharsMax, 'a record has bounded fields');
    this.#own(owner);
    this.#turn.add(this.lastSeq, json);
  }

  /** Numbers the next record of this turn and notes its owner. */
  #own(owner: RecordOwner): void {
    if (this.#turnOwners.length === 0) setImmediate(() => this.#endTurn());
    this.lastSeq += 1;
    this.#turnOwners.push(owner);
  }

  get epoch(): string {
    return this.#writer.epoch.epoch;
  }

  whenDurable(onSettled: (outcome: CommitOutcome) => void): void {
    // Owners are notified after the fsync then.
    if (this.#syncFirst) onSettled('durable');
    else this.#writer.sync(onSettled);
  }

  get waitingBytes(): number {
    return this.bytes - this.#bytesTaken;
  }

  async dropTaken(epoch: SpoolEpoch, segmentCount: number, bytesTaken: number): Promise<void> {
    const { kept } = this;
    assert(segmentCount <= epoch.segments.length, 'only segments of the epoch are dropped');
    const dropped = epoch.segments.splice(0, segmentCount);
    const [next] = epoch.segments;
    this.#bytesTaken = next !== undefined && kept.isTakenBack(next) ? 0 : bytesTaken;
    const shipped = dropped.filter((segment) => !kept.isTakenBack(segment));
    for (const segment of shipped) {
      this.bytes -= segment.bytes;
      this.#writers.get(epoch)?.release(segment);
    }
    assert(this.bytes >= 0, 'what is dropped was counted');
    await this.#remove(epoch, async () => {
      for (const segment of dropped) {
        if (shipped.includes(segment)) await kept.keep(epoch, segment);
        else await kept.noteHandedIn(segment);
      }
    });
  }

  async dropEpoch(epoch: SpoolEpoch): Promise<void> {
    assert(!epoch.isLive, 'the live epoch is never dropped');
    await this.dropTaken(epoch, epoch.segments.length, 0);
    const place = this.epochs.indexOf(epoch);
    if (place >= 0) this.epochs.splice(place, 1);
    if (this.kept.isFolder(epoch.folder)) return;
    await this.#remove(epoch, () => removeEpochFolder(this.files, epoch.folder));
  }

  takeBack(of: Parameters<KeptSegments['takeBack']>[1]): Promise<void> {
    this.#bytesTaken = 0;
    return this.kept.takeBack(this.epochs, of);
  }

  async #remove({ folder }: SpoolEpoch, work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      // The next start finds the rest and ships it again; the control plane accepts it as known.
      this.#logger.warn({ folder, err: error }, 'a shipped part of the spool could not be deleted');
    }
  }

  get lastError(): string | null {
    if (this.#trouble !== null) return this.#trouble;
    return this.isFull && this.#state === 'open'
      ? `the spool is full: ${this.bytes} of ${this.bytesMax} bytes are taken`
      : null;
  }

  async close(): Promise<void> {
    this.#endTurn();
    clearInterval(this.#look);
    if (this.#repairTimer !== null) clearTimeout(this.#repairTimer);
    const { epoch } = this.#writer;
    // Deciding has ended, and every answered record is in the files.
    epoch.isCertain = this.#state === 'open';
    if (this.#state !== 'failed') this.#enter('closed', this.#trouble);
    for (const writer of this.#writers.values()) await writer.close();
    epoch.isLive = false;
    await this.#hold.release();
  }

  #writerOf(epoch: SpoolEpoch): EpochWriter {
    const { files, fsyncMs, segmentBytesMax = attestLimits.spoolSegmentBytesMax, logger } = this.#options;
    const writer: EpochWriter = new EpochWriter({
      files,
      epoch,
      fsyncMs,
      segmentBytesMax,
      logger,
      onSyncFailed: (error) => this.#failSync(writer, error),
      onSynced: (seconds) => {
        for (const listener of this.fsyncs) listener(seconds);
      },
    });
    this.#writers.set(epoch, writer);
    return writer;
  }

  /** Writes the records of this turn with one call. */
  #endTurn(): void {
    const owners = this.#turnOwners;
    if (owners.length === 0) return;
    const byteCount = this.#turn.seal();
    this.#turn.clear();
    this.#turnOwners = [];
    const isWritten = this.#state === 'open' && this.#tryWrite(byteCount, this.lastSeq - owners.length + 1);
    if (!isWritten) {
      this.lastSeq = Math.max(0, this.lastSeq - owners.length);
      this.#notify(owners, 'onFailed');
      return;
    }
    if (this.#syncFirst) {
      this.#writer.sync((outcome) => this.#notify(owners, outcome === 'durable' ? 'onWritten' : 'onFailed'));
    } else {
      this.#writer.sync(null);
      this.#notify(owners, 'onWritten');
    }
  }

  #tryWrite(byteCount: number, firstSeq: number): boolean {
    try {
      if (!this.#writer.isGrounded) {
        this.#lose();
        return false;
      }
      this.#makingRoom(() => this.#writer.write(this.#turn.bytes, byteCount, firstSeq));
    } catch (error) {
      this.#break(error);
      return false;
    }
    this.bytes += byteCount;
    this.#repairInMs = limits.retryFirstMs;
    if (this.isFull) this.#noteTrouble();
    return true;
  }

  /** On a full disk kept segments go first. */
  #makingRoom(write: () => void): void {
    for (let tries = 1; ; tries++) {
      try {
        write();
        return;
      } catch (error) {
        const isFull = hasCode(error, 'ENOSPC') || hasCode(error, 'EDQUOT');
        if (!isFull || tries > roomTriesMax || !this.kept.giveWay()) throw error;
      }
    }
  }

  #notify(owners: readonly RecordOwner[], outcome: keyof RecordOwner): void {
    if (outcome === 'onFailed') this.failedTurns += 1;
    for (const owner of owners) {
      try {
        owner[outcome]();
      } catch (error) {
        // Isolate callbacks: one owner's exception must not reach the others.
        this.#logger.error({ err: error }, 'the owner of a spooled record failed when it was notified');
      }
    }
  }

  #noteTrouble(): void {
    this.#troubleAtMs = this.#options.clock.monotonic();
  }

  #tryAgain(work: () => void): void {
    this.#noteTrouble();
    this.#repairTimer = setTimeout(() => {
      this.#repairTimer = null;
      work();
    }, this.#repairInMs).unref();
    this.#repairInMs = Math.min(this.#repairInMs * 2, limits.retryLastMs);
  }

  /** After its last good byte the file holds part of the turn, all of it, or nothing. */
  #break(error: unknown): void {
    if (this.#state === 'open')
      this.#logger.error({ err: error }, 'the spool cannot be written to; deciding stops');
    this.#enter('broken', `the spool cannot be written to: ${messageOf(error)}`);
    this.#tryAgain(() => this.#repair());
  }

  /**
   * Ends the segment so that it can be deleted once it is shipped, which makes room on a small volume. Begins
   * the next one if there is room.
   */
  #repair(): void {
    if (this.#state !== 'broken') return;
    try {
      this.#writer.endSegment();
      if (!this.#writer.isGrounded) {
        this.#lose();
        return;
      }
      this.#makingRoom(() => this.#writer.probe(this.lastSeq + 1));
    } catch (error) {
      this.#break(error);
      return;
    }
    this.#reopen('the spool can be written to again; deciding resumes');
  }

  #reopen(message: string): void {
    this.#noteTrouble();
    this.#enter('open', null);
    this.#repairInMs = limits.retryFirstMs;
    this.#logger.warn({ directory: this.directory }, message);
  }

  /** Runs between requests, so that readiness does not depend on the next one. */
  #lookDown(): void {
    void this.kept.trim().catch(() => undefined);
    if (this.#state !== 'open') return;
    try {
      if (!this.#writer.isGrounded) this.#lose();
    } catch {
      // The next write reports the error.
    }
  }

  /**
   * Records written now would not survive this process: no later start could find them. Answered records are
   * shipped from the files that are still open, and the epoch ends. Its end is never certain, because the old
   * folder may reappear.
   */
  #lose(): void {
    this.#enter('adrift', 'the folder of the spool was removed or replaced');
    const { epoch } = this.#writer;
    this.#logger.error(
      { folder: epoch.folder, bytes: this.waitingBytes },
      'the folder of the spool was removed or replaced; deciding stops until the records that are still open are shipped',
    );
    epoch.isLive = false;
    try {
      this.#writer.endSegment();
    } catch {
      // Readers stop at its last good byte.
    }
    this.#tryAgain(() => void this.#regain());
  }

  /**
   * Resumes in a new folder and epoch once the old epoch is shipped. DATA_DIR itself is not created again:
   * its lock went with it.
   */
  async #regain(): Promise<void> {
    const lost = this.#writer.epoch;
    try {
      if (this.#state !== 'adrift') return;
      if (!this.epochs.includes(lost) && this.files.look(dirname(this.directory)) !== null) {
        const start = {
          epoch: newEpoch(this.#options.random),
          isSyncedFirst: this.#syncFirst,
          // The socket that announced this writer went with the folder.
          isSole: false,
        };
        const epoch = await createEpoch(this.files, this.directory, start, this.#logger);
        await this.#writer.close();
        if (this.#state !== 'adrift') return;
        this.#writers.delete(lost);
        this.#writer = this.#writerOf(epoch);
        this.lastSeq = 0;
        this.#writer.probe(1);
        this.epochs.push(epoch);
        this.#reopen('the spool has a new folder; deciding resumes');
        return;
      }
    } catch (error) {
      this.#logger.error({ err: error }, 'the spool cannot be given a new folder');
    }
    this.#tryAgain(() => void this.#regain());
  }

  #failSync(writer: EpochWriter, error: unknown): void {
    this.#noteTrouble();
    // A folder that is gone cannot be synced, and nothing depends on it any more.
    if (writer !== this.#writer || this.#state === 'adrift') return;
    if (hasCode(error, 'ENOENT') && this.#state !== 'closed') {
      this.#lose();
      return;
    }
    this.#enter('failed', `the spool cannot be synced to disk, restart the sidecar: ${messageOf(error)}`);
    this.#logger.error(
      { err: error },
      'the spool cannot be synced to disk; no decision is made until a restart',
    );
  }
}

/** In one turn of the event loop: some 32 MiB, and 40 ms. */
const roomTriesMax = 4;

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
