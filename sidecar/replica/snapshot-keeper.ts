import type { RecordForm } from '../../shared/model/attestation.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import type { ChangeEntry, SealedEntry, SignedSnapshot } from '../../shared/wire/sync/sync-schema.ts';
import { replicaLimits } from './limits.ts';
import type { Replica } from './replica.ts';
import type { SnapshotFile } from './snapshot-file.ts';

/**
 * The state on disk for the next start. `unbelievable`: signed by a key that the start will not trust.
 * `behind`: changes are missing.
 */
type Disk = 'in step' | 'unbelievable' | 'behind';

/**
 * Keeps the disk close to the replica without delaying it: applied entries are queued and written at once,
 * one write at a time, those of a turn and of the write before it together. A change is acknowledged to the
 * control plane once it is written (`kept`), so that what was revoked stays so here after kill -9 and a
 * restore of the database. The fsync comes after the acknowledgement and before the next write: a power cut
 * costs at most the changes of one write. A failing disk only makes the next cold start older.
 *
 *     in step ──a sync key is declared compromised──> unbelievable
 *        │                                              │
 *        └──────────────a write fails───────────────────┴──> behind
 *
 *     any of them ──a fresh snapshot comes──> in step
 */
export class SnapshotKeeper {
  readonly #deps: SnapshotKeeperDeps;
  #unwritten: SealedEntry[] = [];
  #snapshot: SignedSnapshot | null = null;
  #changesOnDisk = 0;
  #trustedKeys = '';
  #recordForm: RecordForm;
  #recordFormAfterMs = Number.NEGATIVE_INFINITY;
  #disk: Disk = 'in step';
  /** A large snapshot was loaded whose text is, or has just become, garbage. */
  #hasGarbage = false;
  #snapshotWantedAfterMs = Number.NEGATIVE_INFINITY;
  #writing: Promise<void> | null = null;
  /** Wait for what is queued. */
  #waiting: (() => void)[] = [];
  /** Wait for what is being written; null: nothing is. */
  #waitingInFlight: (() => void)[] | null = null;
  /** The disk has been told of as too slow since it last took something. */
  #isSlow = false;

  constructor(deps: SnapshotKeeperDeps) {
    this.#deps = deps;
    this.#recordForm = deps.replica.recordForm;
  }

  /** The disk needs a fresh snapshot: it is out of step or has too many changes. */
  get wantsSnapshot(): boolean {
    const isWanted = this.#disk !== 'in step' || this.#changesOnDisk > replicaLimits.snapshotFileChangesMax;
    return isWanted && this.#deps.clock.monotonic() > this.#snapshotWantedAfterMs;
  }

  /** The replica has installed this snapshot from the control plane. */
  begin(signed: SignedSnapshot): void {
    this.#unwritten = [];
    this.#snapshot = signed;
    this.#hasGarbage ||= isLarge(signed);
    this.#changesOnDisk = 0;
    this.#disk = 'in step';
    this.#startWriting();
  }

  /** The replica has loaded the disk: a snapshot with this many changes. */
  resume(changes: number): void {
    this.#changesOnDisk = changes;
  }

  /** Loading the fresh snapshot failed: retry after `replicaLimits.snapshotFileRetryMs`. */
  postpone(): void {
    this.#snapshotWantedAfterMs = this.#deps.clock.monotonic() + replicaLimits.snapshotFileRetryMs;
  }

  /** The replica has applied this entry. */
  add(entry: ChangeEntry): void {
    if (this.#disk === 'behind') return;
    this.#unwritten.push(entry);
    if (entry.kind === 'signing_key.put' && entry.body.purpose === 'sync' && entry.body.compromised) {
      this.#disk = 'unbelievable';
    }
    this.#startWriting();
  }

  /**
   * Resolves when what was applied so far survives the end of this process. Also where the disk fails, which
   * the log says, or takes longer than `replicaLimits.keptWaitMsMax`: the change is in force here, and a
   * disk must not make the sidecar deaf to the next one.
   */
  async kept(): Promise<void> {
    const waiting = this.#hasUnwritten ? this.#waiting : this.#waitingInFlight;
    if (waiting === null) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(() => {
        if (!this.#isSlow)
          this.#deps.logger.warn(
            {},
            'changes are acknowledged that are not on disk yet: the disk is too slow',
          );
        this.#isSlow = true;
        resolve();
      }, replicaLimits.keptWaitMsMax);
      waiting.push(() => {
        clearTimeout(timer);
        resolve();
      });
    });
  }

  /** Resolves when everything is written and synced, or has failed. */
  async flush(): Promise<void> {
    await this.#writing;
  }

  get #hasUnwritten(): boolean {
    return this.#snapshot !== null || this.#unwritten.length > 0;
  }

  #startWriting(): void {
    this.#writing ??= this.#write().finally(() => {
      this.#writing = null;
      if (this.#hasGarbage) setImmediate(this.#deps.freeMemory);
      this.#hasGarbage = false;
    });
  }

  async #write(): Promise<void> {
    // Everything of this turn is one write.
    await Promise.resolve();
    try {
      while (this.#hasUnwritten) {
        await this.#writeWhatWaits();
        this.#release();
        await this.#deps.file.sync();
      }
    } catch (error) {
      this.#deps.logger.error({ err: error }, 'the last known state cannot be written to disk');
      this.#disk = 'behind';
      this.#unwritten = [];
      this.#snapshot = null;
      this.postpone();
      this.#release();
      this.#waitingInFlight = this.#waiting;
      this.#waiting = [];
      this.#release();
    }
  }

  async #writeWhatWaits(): Promise<void> {
    const { file, replica } = this.#deps;
    // Read together: a snapshot may arrive during the write, and later entries belong to its file.
    const snapshot = this.#snapshot;
    const entries = this.#unwritten;
    this.#waitingInFlight = this.#waiting;
    this.#snapshot = null;
    this.#unwritten = [];
    this.#waiting = [];
    // Keys first: a snapshot signed by an unpinned key would be refused.
    await this.#writeTrustedKeys(replica, file);
    await this.#writeRecordForm(replica, file);
    if (snapshot !== null) await file.replace(snapshot);
    if (entries.length > 0) await file.append(entries);
    this.#changesOnDisk += entries.length;
  }

  #release(): void {
    const waiting = this.#waitingInFlight ?? [];
    this.#waitingInFlight = null;
    this.#isSlow = false;
    for (const resolve of waiting) resolve();
  }

  async #writeTrustedKeys(replica: Replica, file: SnapshotFile): Promise<void> {
    const keys = replica.syncKeys;
    const text = JSON.stringify(keys);
    if (text === this.#trustedKeys) return;
    await file.writeTrustedKeys(keys);
    this.#trustedKeys = text;
  }

  /**
   * With the next change: it hardly ever changes, and the next start writes records in the other form. For
   * the same reason the state is written, too, where this cannot be; it is tried again a while later.
   */
  async #writeRecordForm({ recordForm }: Replica, file: SnapshotFile): Promise<void> {
    const { clock, logger } = this.#deps;
    if (recordForm === this.#recordForm || clock.monotonic() < this.#recordFormAfterMs) return;
    try {
      await file.writeRecordForm(recordForm);
      this.#recordForm = recordForm;
    } catch (error) {
      this.#recordFormAfterMs = clock.monotonic() + replicaLimits.snapshotFileRetryMs;
      logger.warn({ err: error }, 'the form of records that is asked for cannot be written to disk');
    }
  }
}

/** Its garbage is worth a collection. */
export const isLarge = ({ snapshot }: SignedSnapshot): boolean =>
  snapshot.length >= replicaLimits.snapshotCharsFreedMin;

export interface SnapshotKeeperDeps {
  readonly file: SnapshotFile;
  readonly replica: Replica;
  readonly clock: Clock;
  /** See FollowDeps. */
  readonly freeMemory: () => void;
  readonly logger: Logger;
}
