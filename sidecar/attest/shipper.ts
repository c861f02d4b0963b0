import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { assert, must, unreachable } from '../../shared/errors/assert.ts';
import { limits } from '../../shared/model/limits.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import type { Random } from '../../shared/runtime/random.ts';
import { makeWakeup } from '../../shared/runtime/wakeup.ts';
import type { Receipt } from '../../shared/wire/sync/receipt.ts';
import type { RefusedRecord, ShipAnswer, VoidRun } from '../../shared/wire/sync/sync.ts';
import { BatchBuilder, type ShippingConnection } from './batch.ts';
import { countWaiting } from './count-waiting.ts';
import { EpochReader } from './epoch-reader.ts';
import { attestLimits } from './limits.ts';
import type { Spool } from './spool.ts';
import { refusedFolder } from './spool-folder.ts';

export interface ShipperDeps {
  readonly spool: Spool;
  /**
   * Throws if there is no answer that a ShipAnswer can express within `limits.internalCallMsMax`. `onOver`:
   * called before that, once `body` may change; never while it may still be sent.
   */
  readonly client: { shipAttestations(body: Uint8Array, onOver: () => void): Promise<ShipAnswer> };
  /** The newest connection of this process; null while there is none. */
  readonly connection: () => ShippingConnection | null;
  /** Called with what the control plane said about chains, to be kept. Default: it is not. */
  readonly onReceipts?: (receipts: readonly Receipt[]) => void;
  /**
   * Resolves once the control plane was shown what it told. Called before records that it accepted are sent
   * again.
   */
  readonly beforeGoingBack?: () => Promise<void>;
  readonly random: Random;
  readonly logger: Logger;
  /** Default: `attestLimits.shipIntervalMs`. */
  readonly shipIntervalMs?: number;
}

/** What to do after a step: go on at once, or wait for new records. */
type Step = 'more' | 'idle';

/** A batch on its way. */
interface Shipment {
  readonly batch: BatchBuilder;
  readonly reader: EpochReader;
  /** Where the batch ends. */
  readonly end: EpochReader['position'];
  readonly connection: ShippingConnection;
  /** Sent before the batch before it was accepted. */
  readonly isAhead: boolean;
  readonly answer: Promise<ShipAnswer>;
  /** The bytes of the batch are no longer being sent. */
  readonly call: { isOver: boolean };
}

/** What the last call has shown. */
type Progress =
  | { readonly kind: 'shipping' }
  /** `pauseMsMax`: before the next attempt. */
  | { readonly kind: 'retrying'; readonly error: string; readonly pauseMsMax: number }
  /** Nothing more is sent over this connection. */
  | { readonly kind: 'superseded'; readonly connectionId: string };

/** In the order in which they come; any but the last may be left out. */
const lives = ['running', 'draining', 'stopping', 'stopped'] as const;
type Life = (typeof lives)[number];

/**
 * Ships the spool to the control plane: oldest epoch first, batch by batch, until each record is accepted.
 *
 *     shipping ──no usable answer──> retrying ──an answer──> shipping
 *        └────another connection has taken over────> superseded ──this process connects anew──> shipping
 *
 *     running ──drain──> draining ──all is accepted, or cannot be──────────────────────────────> stopped
 *        └─────stop─────────┴──stop, or its time is over──> stopping ──the call in flight is over──┘
 *
 * Delivery is at least once, and the control plane deduplicates by (sidecar, epoch, number). So after a lost
 * answer the batch is sent again, and no cursor is kept on disk: after a restart the first answer shows how
 * far the control plane is, and at most one batch was sent twice.
 *
 * With a backlog, the next batch is sent before the current one is answered, so that the control plane reads
 * and signs it meanwhile. It counts only if the batch before it was accepted as sent. After any other outcome
 * it is discarded, and the next batch goes alone.
 *
 * Once all of a finished epoch is accepted, a last batch without records reports its end and whether anything
 * may be missing (EpochEnd). The control plane can then free the rest of the epoch's leases.
 *
 * A refused record must not delay later ones and is never dropped silently. It is first written durably to a
 * file with the reason; then its number is given up with a VoidRun, in one batch with its neighbours. The
 * refused records of one answer share a file, because a file for each would cost a millisecond a record. If
 * the control plane refuses a batch as a whole, no record is at fault: the batch is retried, and shows in
 * `lastError`, until one of the two programs is replaced.
 */
export class Shipper {
  shippedRecords = 0;
  /** Numbers given up, by reason. Anything but 0 needs attention. */
  readonly voidedRecords = { refused: 0, damaged: 0, missing: 0 } satisfies Record<VoidRun['void'], number>;
  damagedPlaces = 0;
  /** Epochs that ended in the middle of a record. */
  tornEnds = 0;

  readonly #deps: ShipperDeps;
  readonly #intervalMs: number;
  /**
   * Builders for reuse: their bytes are no longer being sent. The memory is shared, and V8 does not count it
   * when it decides whether to collect.
   */
  readonly #idleBatches: BatchBuilder[] = [];
  /** A batch sent ahead, after the current one. */
  #ahead: Shipment | null = null;
  /** The last batch was accepted as sent, so the position of the control plane is known. */
  #isInStep = false;
  readonly #window = Buffer.allocUnsafe(attestLimits.spoolReadBytes);
  readonly #wakeup = makeWakeup();
  readonly #finished: Promise<void>;
  /** The reader of the oldest epoch. */
  #reader: EpochReader | null = null;
  /** Refused numbers of that epoch, kept in files. */
  readonly #refused = new Set<number>();
  /** Written by `#enter` alone. */
  #progress: Progress = { kind: 'shipping' };
  /** Written by `#advance` alone. */
  #life: Life = 'running';
  /** A history has begun that may lack what was shipped before. */
  #handInFor: string | null = null;

  /** Starts at once. */
  constructor(deps: ShipperDeps) {
    this.#deps = deps;
    this.#intervalMs = deps.shipIntervalMs ?? attestLimits.shipIntervalMs;
    this.#finished = this.#run();
  }

  get state(): Progress['kind'] | 'stopped' {
    return this.#life === 'stopped' ? 'stopped' : this.#progress.kind;
  }

  /** Why the last call failed; null if it succeeded. */
  get lastError(): string | null {
    return this.#progress.kind === 'retrying' ? this.#progress.error : null;
  }

  /** When the oldest unshipped record was decided; null if there is none. */
  async oldestDecidedAtMs(): Promise<number | null> {
    return (await this.#readerOfOldest()?.nextDecidedAtMs()) ?? null;
  }

  /**
   * Ships the rest without waiting for more, and stops. Call it after the spool was closed. Resolves true
   * once all is accepted; false after `timeoutMs`, or if another process has taken over. The next start ships
   * the rest.
   */
  async drain(timeoutMs: number): Promise<boolean> {
    this.#advance('draining');
    this.#wakeup.wake();
    let timer: NodeJS.Timeout | undefined;
    const timeIsOver = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, timeoutMs);
    });
    await Promise.race([this.#finished, timeIsOver]);
    clearTimeout(timer);
    this.#advance('stopping');
    this.#wakeup.wake();
    return this.#isEverythingTaken;
  }

  /**
   * Counts unshipped records, after `drain`; null if the disk fails.
   */
  async countLeft(): Promise<number | null> {
    const { spool, logger } = this.#deps;
    const nextSeq = this.#reader?.epoch === spool.epochs[0] ? (this.#reader?.position.seq ?? null) : null;
    try {
      return await countWaiting(spool.files, spool.epochs, nextSeq);
    } catch (error) {
      logger.warn({ err: error }, 'the records left in the spool could not be counted');
      return null;
    }
  }

  /**
   * This history is in force. Where it is not the one before, kept records are handed in once more, exactly
   * once as ever: the control plane passes over those that it has.
   */
  noteGeneration(generation: string): void {
    const { kept } = this.#deps.spool;
    if (!kept.isNews(generation)) {
      void kept.note(generation);
      return;
    }
    this.#handInFor = generation;
    this.#wakeup.wake();
  }

  /** Retries at once: the control plane is back. */
  endPause(): void {
    this.#wakeup.interrupt();
  }

  /** Stops after the call in flight. */
  async stop(): Promise<void> {
    this.#advance('stopping');
    this.#wakeup.wake();
    await this.#finished;
  }

  async #run(): Promise<void> {
    while (this.#isRunning) {
      const pauseMs = await this.#stepOrRetry();
      if (this.#life === 'draining' && this.#isDrained) break;
      if (this.#isRunning) await this.#wakeup.sleep(pauseMs);
    }
    await settled(this.#ahead);
    this.#advance('stopped');
  }

  get #isRunning(): boolean {
    return this.#life === 'running' || this.#life === 'draining';
  }

  /** A later life stays. */
  #advance(life: Life): void {
    if (lives.indexOf(life) > lives.indexOf(this.#life)) this.#life = life;
  }

  #enter(progress: Progress): void {
    assert(this.#life !== 'stopped', 'a shipper that has stopped sends nothing');
    this.#progress = progress;
  }

  /** Waits for the ends of epochs to be reported only while the control plane is reachable. */
  get #isDrained(): boolean {
    if (this.#progress.kind === 'superseded') return true;
    const isReached = this.#progress.kind === 'shipping' && this.#deps.connection() !== null;
    const hasEnds = this.#deps.spool.epochs.some(({ isLive }) => !isLive);
    return this.#isEverythingTaken && !(hasEnds && isReached);
  }

  get #isEverythingTaken(): boolean {
    const { bytes, epochs, lastSeq } = this.#deps.spool;
    // Nothing is left to ship, so this holds even if the control plane is unreachable.
    if (bytes === 0) return true;
    const [epoch, ...others] = epochs;
    if (epoch === undefined) return true;
    if (others.length > 0 || this.#reader?.epoch !== epoch) return false;
    return epoch.isLive ? this.#reader.position.seq > lastSeq : this.#reader.isAtEnd;
  }

  /** Resolves to the pause until the next step. */
  async #stepOrRetry(): Promise<number> {
    try {
      const step = await this.#step();
      if (step === 'more') return 0;
      return this.#life === 'draining' ? limits.retryFirstMs : this.#intervalMs;
    } catch (error) {
      return this.#noteFailure(error);
    }
  }

  async #step(): Promise<Step> {
    const connection = this.#deps.connection();
    if (connection === null || this.#isSuperseded(connection)) return 'idle';
    if (this.#handInFor !== null) await this.#handIn(this.#handInFor);
    const reader = this.#readerOfOldest();
    if (reader === null) return 'idle';
    const shipment = (await this.#takeAhead(reader)) ?? (await this.#ship(reader, connection));
    if (shipment === null) return 'idle';
    assert(this.#ahead === null, 'at most one batch is sent ahead');
    if (this.#isInStep && shipment.batch.isFull) this.#ahead = await this.#shipAfter(shipment);
    this.#isInStep = false;
    try {
      return await this.#noteAnswer(shipment, await shipment.answer);
    } finally {
      this.#putBack(shipment);
    }
  }

  async #handIn(generation: string): Promise<void> {
    await this.#discardAhead();
    await this.#deps.spool.takeBack({ generation });
    if (this.#handInFor === generation) this.#handInFor = null;
    this.#reader = null;
    this.#isInStep = false;
  }

  #putBack({ batch, call }: Shipment): void {
    if (!call.isOver) return;
    assert(!this.#idleBatches.includes(batch), 'a batch is put back once');
    this.#idleBatches.push(batch);
  }

  /** The batch sent ahead, if all before it was accepted. */
  async #takeAhead(reader: EpochReader): Promise<Shipment | null> {
    const ahead = this.#ahead;
    if (ahead === null) return null;
    if (ahead.reader === reader && ahead.batch.firstSeq === reader.position.seq && this.#isInStep) {
      this.#ahead = null;
      return ahead;
    }
    await this.#discardAhead();
    return null;
  }

  /** Two attempts with one batch could be answered in either order, so waits for the first. */
  async #discardAhead(): Promise<void> {
    const ahead = this.#ahead;
    if (ahead === null) return;
    await settled(ahead);
    this.#putBack(ahead);
    this.#ahead = null;
  }

  /** Sends the next batch. Null: there is nothing to send. */
  async #ship(reader: EpochReader, connection: ShippingConnection): Promise<Shipment | null> {
    const batch = this.#idleBatches.pop() ?? new BatchBuilder();
    const end = await this.#fill(batch, reader);
    if (batch.isEmpty) {
      reader.position = end;
      await this.#dropTaken(reader);
      if (reader.epoch.isLive) {
        this.#idleBatches.push(batch);
        return null;
      }
      batch.end = {
        nothing_lost: reader.epoch.isCertain && !reader.isDoubtful,
        torn_bytes: reader.tornBytes,
      };
    }
    return this.#send({ batch, reader, end, connection, isAhead: false });
  }

  /** Sends the batch after one in flight; null if there is none, or the disk fails. */
  async #shipAfter({ reader, end: from, connection }: Shipment): Promise<Shipment | null> {
    const batch = this.#idleBatches.pop() ?? new BatchBuilder();
    // An error shows again when this batch is the next.
    const end = await this.#fill(batch, reader, from).catch(() => null);
    if (end === null) return null;
    if (!batch.isEmpty) return this.#send({ batch, reader, end, connection, isAhead: true });
    this.#idleBatches.push(batch);
    return null;
  }

  /** Rejects if the disk fails; the batch is then idle again. */
  async #fill(
    batch: BatchBuilder,
    reader: EpochReader,
    from?: EpochReader['position'],
  ): Promise<EpochReader['position']> {
    try {
      return await reader.fill(batch, this.#refused, from);
    } catch (error) {
      this.#idleBatches.push(batch);
      throw error;
    } finally {
      this.#noteDamage(reader);
    }
  }

  #send(sent: Omit<Shipment, 'answer' | 'call'>): Shipment {
    const call = { isOver: false };
    const answer = this.#deps.client.shipAttestations(sent.batch.body(sent.connection), () => {
      call.isOver = true;
    });
    // It may reject before it is awaited.
    answer.catch(() => undefined);
    return { ...sent, answer, call };
  }

  #noteDamage(reader: EpochReader): void {
    this.damagedPlaces += reader.damagedPlaces;
    reader.damagedPlaces = 0;
  }

  async #noteAnswer(shipment: Shipment, answer: ShipAnswer): Promise<Step> {
    const { batch, reader, connection } = shipment;
    switch (answer.kind) {
      case 'taken':
        this.#deps.onReceipts?.(answer.receipts ?? []);
        return this.#noteTaken(shipment, answer.nextSeq);
      case 'gap':
        // A batch sent ahead has overtaken the one before it; send it alone.
        if (shipment.isAhead) return 'more';
        return this.#goBack(reader, batch, answer.expectedSeq);
      case 'refused':
        return this.#keepRefused(batch, answer.refused);
      case 'superseded':
        return this.#noteSuperseded(connection);
      case 'reconnect':
        // The follower of the feeds reconnects within a pull.
        return 'idle';
      default:
        return unreachable(answer);
    }
  }

  /** Reads the oldest epoch until it is finished and empty. */
  #readerOfOldest(): EpochReader | null {
    const { spool, logger } = this.#deps;
    const oldest = spool.epochs[0];
    if (oldest === undefined) return null;
    if (this.#reader?.epoch !== oldest) {
      this.#reader = new EpochReader(oldest, this.#window, {
        files: spool.files,
        directory: spool.directory,
        logger,
      });
      this.#refused.clear();
    }
    return this.#reader;
  }

  async #noteTaken({ reader, batch, end }: Shipment, nextSeq: number): Promise<Step> {
    const { spool, logger } = this.#deps;
    if (nextSeq < batch.nextSeq)
      throw new Error(
        `the control plane accepted records up to ${nextSeq} of a batch that ends at ${batch.nextSeq}`,
      );
    if (reader.epoch.isLive && nextSeq > spool.lastSeq + 1) {
      throw new Error(
        `the control plane accepted record ${nextSeq - 1} of this epoch, which does not exist yet`,
      );
    }
    this.#noteSuccess();
    this.shippedRecords += batch.recordCount;
    for (const run of batch.voided) {
      this.voidedRecords[run.reason] += run.count;
      logger.error(
        { epoch: batch.epoch, ...run },
        'records were lost; the control plane has recorded the gap',
      );
    }
    for (const seq of this.#refused) if (seq < nextSeq) this.#refused.delete(seq);
    if (batch.end !== null) {
      if (batch.end.torn_bytes > 0) this.tornEnds += 1;
      await spool.dropEpoch(reader.epoch);
      return 'more';
    }
    // The control plane may be ahead of a sidecar that was restarted.
    this.#isInStep = nextSeq === batch.nextSeq;
    reader.position = this.#isInStep ? end : reader.positionOf(nextSeq);
    await this.#dropTaken(reader);
    // New records may wait for more, unless there is a backlog.
    return batch.isFull || !reader.epoch.isLive || this.#life === 'draining' ? 'more' : 'idle';
  }

  #dropTaken(reader: EpochReader): Promise<void> {
    const { segments, bytes } = reader.passed;
    return this.#deps.spool.dropTaken(reader.epoch, segments, bytes);
  }

  /**
   * The control plane lacks records from before this batch: ships those still on disk, kept ones too, and
   * gives up the rest.
   */
  async #goBack(reader: EpochReader, { firstSeq, epoch }: BatchBuilder, expectedSeq: number): Promise<Step> {
    if (expectedSeq >= firstSeq)
      throw new Error(`a batch from ${firstSeq} cannot leave a gap before ${expectedSeq}`);
    this.#deps.logger.error(
      { epoch, firstSeq, expectedSeq },
      'the control plane no longer has records that it accepted before',
    );
    this.#noteSuccess();
    await this.#deps.beforeGoingBack?.();
    await this.#deps.spool.takeBack({ epoch: reader.epoch });
    reader.position = reader.positionOf(expectedSeq);
    return 'more';
  }

  async #keepRefused(batch: BatchBuilder, refused: readonly RefusedRecord[]): Promise<Step> {
    const { spool, logger } = this.#deps;
    const { epoch } = batch;
    if (refused.length === 0) throw new Error('a batch was refused without naming one of its records');
    for (let rest = refused; rest.length > 0; ) {
      const text = await linesOfRefused(batch, rest);
      const kept = rest.slice(0, text.length);
      const [first] = kept;
      const file = join(refusedFolder(spool.directory), `${epoch}-${first?.seq}.jsonl`);
      await spool.files.writeDurably(file, Buffer.from(text.join('')));
      logger.error(
        { epoch, file, records: kept.length, because: first?.message },
        'the control plane refused records; they are kept in a file',
      );
      for (const { seq } of kept) this.#refused.add(seq);
      rest = rest.slice(text.length);
    }
    this.#noteSuccess();
    return 'more';
  }

  #noteSuperseded({ sidecarId, connectionId }: ShippingConnection): Step {
    this.#enter({ kind: 'superseded', connectionId });
    this.#deps.logger.error(
      { sidecar_id: sidecarId },
      'another process has connected with this sidecar id; this one ships no more records until it reconnects',
    );
    return 'idle';
  }

  #isSuperseded({ connectionId }: ShippingConnection): boolean {
    return this.#progress.kind === 'superseded' && this.#progress.connectionId === connectionId;
  }

  #noteSuccess(): void {
    if (this.#progress.kind === 'retrying') this.#deps.logger.info({}, 'shipping of records has resumed');
    this.#enter({ kind: 'shipping' });
  }

  /**
   * The records stay in the spool. Logs the first failure of a series; `lastError` shows the newest.
   */
  #noteFailure(error: unknown): number {
    const { logger, random } = this.#deps;
    const before = this.#progress;
    const isFirst = before.kind !== 'retrying';
    if (isFirst) logger.warn({ err: error }, 'records could not be shipped; retrying');
    const pauseMsMax = isFirst ? limits.retryFirstMs : Math.min(before.pauseMsMax * 2, limits.retryLastMs);
    const text = error instanceof Error ? error.message : String(error);
    this.#enter({ kind: 'retrying', error: text, pauseMsMax });
    // Jitter from half to the whole pause: sidecars of one control plane must not return all at once.
    return pauseMsMax * (0.5 + (random.bytes(1)[0] ?? 0) / 510);
  }
}

/** A line for each refused record, up to the size of a file. Yields to requests in between. */
async function linesOfRefused(batch: BatchBuilder, refused: readonly RefusedRecord[]): Promise<string[]> {
  const lines: string[] = [];
  let chars = 0;
  let stepChars = 0;
  for (const { seq, message } of refused) {
    if (chars >= attestLimits.refusedFileCharsMax) break;
    if (stepChars >= attestLimits.spoolStepBytes) {
      stepChars = 0;
      await nextTurn();
    }
    const record = must(batch.recordText(seq), 'a refused record belongs to its batch');
    const line = `{"epoch":"${batch.epoch}","seq":${seq},"refused_because":${JSON.stringify(message)},"record":${record}}\n`;
    lines.push(line);
    chars += line.length;
    stepChars += line.length;
  }
  return lines;
}

/** Resolves once the shipment is answered or has failed. */
const settled = (shipment: Shipment | null): Promise<unknown> =>
  shipment === null ? Promise.resolve() : shipment.answer.catch(() => undefined);
