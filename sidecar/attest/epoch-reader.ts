import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { assert } from '../../shared/errors/assert.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { timeOf } from '../../shared/wire/sync/spooled-record.ts';
import type { RecordRow, SettlementVoid, SpooledRecord, VoidRun } from '../../shared/wire/sync/sync.ts';
import type { BatchBuilder } from './batch.ts';
import { attestLimits } from './limits.ts';
import type { SpoolFiles } from './spool-files.ts';
import { quarantineFolder, type SpoolEpoch, type SpoolSegment } from './spool-folder.ts';
import {
  type FrameRecords,
  findFrame,
  frameBytesMax,
  frameEnd,
  frameRecords,
  frameZerosMax,
  incomplete,
  lastSeqOf,
} from './spool-segment.ts';

/** A place between two records of an epoch. */
export interface ReadPosition {
  /** Null: before the first segment. */
  readonly segment: SpoolSegment | null;
  /** Between two frames. */
  readonly offset: number;
  /**
   * The number of the next wanted record, maybe in the middle of a frame; earlier ones are skipped.
   */
  readonly seq: number;
  /** Why the numbers between `seq` and the next frame are missing, if any are. */
  readonly holeReason: Exclude<VoidRun['void'], 'refused'>;
}

/**
 * Reads the records of one epoch in order, through one window of constant size.
 *
 * Bytes outside a frame, except up to `frameZerosMax` zeros at the end of a segment (spool-folder.ts):
 * - After the last frame of a finished epoch they are the torn end of a write that a crash or a power cut
 *   interrupted. No answer promised those records for longer than `fsyncMs`. They are skipped with a warning,
 *   and the control plane is notified with the end of the epoch. The epoch is never written to again, so the
 *   file stays unchanged and goes with its folder. If zeros follow, as a killed writer leaves them, the end
 *   is doubtful: an answered record looks the same if its length or its last bytes are damaged. The cost:
 *   after a write that was really torn, which is rare, the units of the epoch's leases stay counted until
 *   their windows end.
 * - Anywhere else they are damage. They are copied to the quarantine folder and reported as an error. The
 * next
 *   good frame shows how many numbers are missing. The batch gives these up explicitly (VoidRun), so that the
 *   control plane sees the loss, and no later record is delayed, accepted twice or mistaken for another.
 *
 * A failed read, or a file that has become shorter, is retried `attestLimits.spoolReadTries` times. Then the
 * segment is read in small pieces, failed pieces count as damaged, and the file is kept in the quarantine
 * folder.
 */
export class EpochReader {
  readonly epoch: SpoolEpoch;
  /** Where the next batch begins. */
  position: ReadPosition;
  /** Damaged places found so far. */
  damagedPlaces = 0;
  /** Bytes after the last frame of a finished epoch. */
  tornBytes = 0;
  /** Answered records may be missing, and nothing else shows it. */
  isDoubtful = false;

  readonly #options: { readonly files: SpoolFiles; readonly directory: string; readonly logger: Logger };
  /** Bytes read from a segment, kept because a batch rarely ends where a read does. */
  readonly #window: Buffer;
  #windowSegment: SpoolSegment | null = null;
  #windowOffset = 0;
  #windowBytes = 0;
  /** By damaged place, already reported and quarantined: where reading continues in its segment. */
  readonly #passed = new Map<string, number>();
  /** The place of the last failed read, and how often in a row it failed. */
  #failure = { name: '', tries: 0 };
  /**
   * Segments read in small pieces, with zeros for failed ones. Remembered because a disk may take seconds to
   * fail.
   */
  readonly #unreadable = new Map<SpoolSegment, Set<number>>();

  constructor(
    epoch: SpoolEpoch,
    /** `attestLimits.spoolReadBytes`; the reader of the next epoch may use it again. */
    window: Buffer,
    options: { readonly files: SpoolFiles; readonly directory: string; readonly logger: Logger },
  ) {
    this.epoch = epoch;
    this.#window = window;
    this.#options = options;
    this.position = this.positionOf(epoch.segments[0]?.firstSeq ?? 1);
  }

  /** The place of that record, or of the first later one. */
  positionOf(seq: number): ReadPosition {
    const segment = this.epoch.segments.findLast(({ firstSeq }) => firstSeq <= seq) ?? null;
    return { segment, offset: 0, seq, holeReason: 'missing' };
  }

  /** Nothing of the epoch is left to read, so far. */
  get isAtEnd(): boolean {
    const { segment, offset } = this.position;
    return (segment === null || offset >= segment.bytes) && this.#segmentAfter(segment) === undefined;
  }

  /**
   * Segments at the front of the epoch that end before `position`, and the bytes before it in the next one.
   */
  get passed(): { readonly segments: number; readonly bytes: number } {
    const count = this.#passedSegments;
    const { segment, offset } = this.position;
    return {
      segments: count,
      bytes: segment !== null && segment === this.epoch.segments[count] ? offset : 0,
    };
  }

  get #passedSegments(): number {
    const { segments, isLive } = this.epoch;
    const { segment, offset, seq } = this.position;
    const last = segments.at(-1);
    // The last segment of a finished epoch stays until the control plane knows its end and whether it is
    // whole.
    const isPassed = last !== undefined && segment === last && offset >= last.bytes;
    if (isPassed && isLive && last.isEnded) return segments.length;
    // A later segment that begins at or before the wanted number proves that all before it is accepted.
    return Math.max(
      0,
      segments.findLastIndex(({ firstSeq }) => firstSeq <= seq),
    );
  }

  /**
   * Fills the batch with the records after `from`; the batch stays empty if there are none. Gives up numbers
   * in `refused`. Returns the end of the batch and leaves `position`, which moves once the batch is accepted.
   * Rejects if the disk fails.
   */
  async fill(
    batch: BatchBuilder,
    refused: ReadonlySet<number>,
    from: ReadPosition = this.position,
  ): Promise<ReadPosition> {
    let at = from;
    batch.begin(this.epoch.epoch, at.seq);
    for (;;) {
      const { segment } = at;
      if (segment === null || at.offset >= segment.bytes) {
        const next = this.#segmentAfter(segment);
        if (next === undefined || !addHole(batch, next.firstSeq, at.holeReason)) return at;
        at = { ...at, segment: next, offset: 0, seq: Math.max(at.seq, next.firstSeq) };
        continue;
      }
      const name = this.#placeName(segment, at.offset);
      const passedTo = this.#passed.get(name);
      if (passedTo !== undefined) {
        at = { ...at, offset: passedTo, holeReason: 'damaged' };
        continue;
      }
      const start = await this.#look(segment, at.offset).catch((error) =>
        this.#noteUnread(segment, name, error),
      );
      if (start === null) continue;
      const isCutByWindow = this.#windowOffset + this.#windowBytes < segment.bytes;
      const { position, stop } = takeFrames(this.#window, start, this.#windowBytes, at, batch, refused);
      at = position;
      if (stop === 'batch is full') return at;
      if (stop === 'step is done') await nextTurn();
      if (stop === 'incomplete') this.#windowSegment = null;
      if (stop === 'damaged' || (stop === 'incomplete' && !isCutByWindow)) {
        const place = this.#placeName(segment, at.offset);
        const rest = await this.#readRest(segment, at.offset).catch((error) =>
          this.#noteUnread(segment, place, error),
        );
        if (rest !== null) at = await this.#passDamage(segment, stop, at, rest);
      }
    }
  }

  /** When the next record to ship was decided; null if there is none, or it cannot be read. */
  async nextDecidedAtMs(): Promise<number | null> {
    let { segment, offset } = this.position;
    while (segment === null || offset >= segment.bytes) {
      const next = this.#segmentAfter(segment);
      if (next === undefined) return null;
      segment = next;
      offset = 0;
    }
    const { files } = this.#options;
    const wanted = Math.min(frameBytesMax, segment.bytes - offset);
    const bytes = Buffer.allocUnsafe(wanted);
    const read = await files.read(segment.file ?? segment.path, bytes, wanted, offset).catch(() => 0);
    const end = frameEnd(bytes, 0, read);
    if (end < 0) return null;
    const records = frameRecords(bytes, 0, end);
    const index = Math.min(Math.max(0, this.position.seq - records.firstSeq), records.count - 1);
    const text = bytes.toString('utf8', records.startOf(index), records.endOf(index));
    const item: SpooledRecord | RecordRow | SettlementVoid = JSON.parse(text);
    return timeOf(item);
  }

  /** Returns the place in the window of the byte at `offset`; reads from there if the window lacks it. */
  async #look(segment: SpoolSegment, offset: number): Promise<number> {
    const start = offset - this.#windowOffset;
    if (this.#windowSegment === segment && start >= 0 && start < this.#windowBytes) return start;
    // The writer may append meanwhile: only bytes from before the read count.
    const wanted = Math.min(this.#window.length, segment.bytes - offset);
    this.#windowSegment = null;
    await this.#read(segment, this.#window.subarray(0, wanted), offset);
    this.#windowSegment = segment;
    this.#windowOffset = offset;
    this.#windowBytes = wanted;
    return 0;
  }

  async #readRest(segment: SpoolSegment, offset: number): Promise<Buffer> {
    const rest = Buffer.allocUnsafe(segment.bytes - offset);
    await this.#read(segment, rest, offset);
    return rest;
  }

  /** Reads the segment from `offset` on. */
  async #read(segment: SpoolSegment, bytes: Buffer, offset: number): Promise<void> {
    const { files } = this.#options;
    const file = segment.file ?? segment.path;
    const failed = this.#unreadable.get(segment);
    if (failed === undefined) {
      const read = await files.read(file, bytes, bytes.length, offset);
      if (read < bytes.length) throw new Error(`${segment.path} is shorter than what was written to it`);
      return;
    }
    const { spoolPieceBytes } = attestLimits;
    for (let start = 0; start < bytes.length; ) {
      const number = Math.floor((offset + start) / spoolPieceBytes);
      const end = (number + 1) * spoolPieceBytes - offset;
      const piece = bytes.subarray(start, end);
      const fail = () => {
        failed.add(number);
        return 0;
      };
      const read = failed.has(number)
        ? 0
        : await files.read(file, piece, piece.length, offset + start).catch(fail);
      piece.fill(0, read);
      start = end;
    }
  }

  /** Rethrows until the retries are used up; then the segment is read in pieces. */
  async #noteUnread(segment: SpoolSegment, name: string, error: unknown): Promise<null> {
    const { files, directory, logger } = this.#options;
    this.#failure = { name, tries: this.#failure.name === name ? this.#failure.tries + 1 : 1 };
    if (this.#failure.tries < attestLimits.spoolReadTries) throw error;
    const file = join(quarantineFolder(directory), `${this.epoch.epoch}-${segment.firstSeq}.bin`);
    const isKept = await files.keep(segment.path, file).then(
      () => true,
      () => false,
    );
    this.#unreadable.set(segment, new Set());
    this.isDoubtful = true;
    logger.error(
      { err: error, segment: segment.path, file: isKept ? file : null },
      'a segment of the spool cannot be read as a whole; it was set aside, and records that cannot be read are lost',
    );
    return null;
  }

  #placeName(segment: SpoolSegment, offset: number): string {
    return `${this.epoch.epoch}-${segment.firstSeq}-${offset}.bin`;
  }

  #segmentAfter(segment: SpoolSegment | null): SpoolSegment | undefined {
    return this.epoch.segments.find(({ firstSeq }) => firstSeq > (segment?.firstSeq ?? 0));
  }

  async #passDamage(
    segment: SpoolSegment,
    stop: 'incomplete' | 'damaged',
    at: ReadPosition,
    rest: Buffer,
  ): Promise<ReadPosition> {
    const { files, directory, logger } = this.#options;
    if (rest.length <= frameZerosMax && rest.every((byte) => byte === 0))
      return { ...at, offset: segment.bytes };
    // Counted from the segment's first number, not the wanted one, so that a later visit finds the same
    // damage.
    const length = await findNextFrame(rest, segment.firstSeq - 1);
    const behind = at.offset + length;
    const place = { epoch: this.epoch.epoch, segment: segment.firstSeq, offset: at.offset, bytes: length };
    const isUnreadable = this.#unreadable.has(segment);
    const isLast = !this.epoch.isLive && this.#segmentAfter(segment) === undefined;
    const isTornEnd = behind === segment.bytes && isLast && !isUnreadable;
    const name = this.#placeName(segment, at.offset);
    if (isTornEnd) {
      this.tornBytes += length;
      // An interrupted write leaves the start of a frame at the end of the file. Anything else may have been
      // a record.
      if (stop === 'damaged' || segment.hasHole) this.isDoubtful = true;
      logger.warn(place, 'the spool ends in the middle of a record: a crash cut it off');
    } else {
      const file = join(quarantineFolder(directory), name);
      // The whole segment is in quarantine already.
      if (!isUnreadable) await files.writeDurably(file, rest.subarray(0, length));
      this.damagedPlaces += 1;
      this.isDoubtful = true;
      logger.error(
        { ...place, file: isUnreadable ? null : file },
        'damaged bytes in the spool were set aside; the records in them are lost',
      );
    }
    this.#passed.set(name, behind);
    return { ...at, offset: behind, holeReason: 'damaged' };
  }
}

/**
 * Start of the next frame with a record later than `afterSeq`, from the second byte on; the length of the
 * bytes if there is none. Yields to requests in between.
 */
async function findNextFrame(bytes: Buffer, afterSeq: number): Promise<number> {
  for (let at = 1; ; ) {
    const stepEnd = Math.min(at + attestLimits.spoolStepBytes, bytes.length);
    const found = findFrame(bytes, at, bytes.length, afterSeq, stepEnd);
    if (found < stepEnd || stepEnd === bytes.length) return found;
    at = stepEnd;
    await nextTurn();
  }
}

type Stop = 'window is read' | 'step is done' | 'batch is full' | 'incomplete' | 'damaged';

/**
 * Takes as many frames between `first` and `bytes` in the window as one step may; the first is at `from`.
 */
function takeFrames(
  window: Buffer,
  first: number,
  bytes: number,
  from: ReadPosition,
  batch: BatchBuilder,
  refused: ReadonlySet<number>,
): { readonly position: ReadPosition; readonly stop: Stop } {
  let { seq, holeReason } = from;
  let start = first;
  let stop: Stop = 'window is read';
  while (start < bytes) {
    if (start - first >= attestLimits.spoolStepBytes) {
      stop = 'step is done';
      break;
    }
    const end = frameEnd(window, start, bytes);
    if (end < 0) {
      stop = end === incomplete ? 'incomplete' : 'damaged';
      break;
    }
    if (lastSeqOf(window, start) >= seq) {
      const records = frameRecords(window, start, end);
      const isTaken =
        addHole(batch, records.firstSeq, holeReason) && addFrame(batch, window, records, refused);
      seq = batch.nextSeq;
      if (!isTaken) {
        stop = 'batch is full';
        break;
      }
      holeReason = 'missing';
    }
    start = end;
  }
  return { position: { segment: from.segment, offset: from.offset + start - first, seq, holeReason }, stop };
}

/** Adds the records of a frame from `batch.nextSeq` on. False: the batch is full. */
function addFrame(
  batch: BatchBuilder,
  window: Buffer,
  records: FrameRecords,
  refused: ReadonlySet<number>,
): boolean {
  const { firstSeq, count } = records;
  let index = batch.nextSeq - firstSeq;
  assert(index >= 0, 'a hole before a frame was given up');
  while (index < count) {
    if (refused.has(firstSeq + index)) {
      if (!batch.addVoid('refused', 1)) return false;
      index += 1;
    } else {
      let to = index + 1;
      while (to < count && !refused.has(firstSeq + to)) to++;
      index += batch.addRecords(window, records, index, to);
      if (index < to) return false;
    }
  }
  return true;
}

/** Gives up the missing numbers before `seq`. False: the batch is full. */
function addHole(batch: BatchBuilder, seq: number, reason: VoidRun['void']): boolean {
  return seq <= batch.nextSeq || batch.addVoid(reason, seq - batch.nextSeq);
}
