import { assert } from '../../shared/errors/assert.ts';
import { limits } from '../../shared/model/limits.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import type { SpoolFiles } from './spool-files.ts';

export type CommitOutcome = 'durable' | 'unknown';

interface GroupCommitDeps {
  readonly files: SpoolFiles;
  readonly folder: string;
  readonly fsyncMs: number;
  readonly logger: Logger;
  readonly onFailed: (error: unknown) => void;
  /** Called with the duration of each successful commit. */
  readonly onSynced: (seconds: number) => void;
}

type State =
  | { readonly kind: 'idle' }
  | { readonly kind: 'due'; readonly timer: NodeJS.Timeout }
  | { readonly kind: 'syncing' | 'hanging'; readonly done: Promise<void> };

/** What one commit covers. */
interface Batch {
  readonly dirtyFiles: Set<number>;
  folder: 'dirty' | 'clean';
  readonly waiting: ((outcome: CommitOutcome) => void)[];
  readonly closing: number[];
}

const emptyBatch = (): Batch => ({ dirtyFiles: new Set(), folder: 'clean', waiting: [], closing: [] });

const isEmpty = ({ dirtyFiles, folder, closing }: Batch): boolean =>
  dirtyFiles.size === 0 && closing.length === 0 && folder === 'clean';

/**
 * Makes written records durable in the background, many with one fsync.
 *
 *     idle ──something is written──> due ──half of fsyncMs──> syncing ──> idle, or due for later writes
 *                                                                │ over the deadline  ^
 *                                                                v                    │
 *                                                             hanging ────────────────┘
 *
 * Writes during a sync go with the next commit. After a failed fsync the disk is never trusted again: every
 * later commit is `unknown` without another attempt (see the contract of the spool).
 */
export class GroupCommit {
  readonly #deps: GroupCommitDeps;
  /** Half of the allowed time; the other half is for the disk. */
  readonly #delayMs: number;
  #state: State = { kind: 'idle' };
  #disk: 'trusted' | 'failed' = 'trusted';
  #next = emptyBatch();
  /** Resolves when all files due for closing are closed. No commit waits for it. */
  #closed: Promise<void> = Promise.resolve();

  constructor(deps: GroupCommitDeps) {
    this.#deps = deps;
    this.#delayMs = deps.fsyncMs / 2;
  }

  /** An fsync has been running for longer than any caller waits for its answer. */
  get isHanging(): boolean {
    return this.#state.kind === 'hanging';
  }

  /**
   * A file was created in the folder. Its name must be durable before any record in it is reported durable.
   */
  createdFile(): void {
    this.#next.folder = 'dirty';
  }

  /**
   * The file was written to. `onSettled` is called after the first fsync that begins after this call.
   */
  wrote(file: number, onSettled: ((outcome: CommitOutcome) => void) | null): void {
    this.#next.dirtyFiles.add(file);
    if (onSettled !== null) this.#next.waiting.push(onSettled);
    this.#schedule();
  }

  /**
   * The file is neither written nor read any more. Closes it once its content is durable.
   */
  closeAfterSync(file: number): void {
    this.#next.closing.push(file);
    this.#schedule();
  }

  /** Syncs and closes the rest. Resolves when nothing is pending, whatever the outcome. */
  async finish(): Promise<void> {
    for (;;) {
      if ('done' in this.#state) await this.#state.done;
      else if (isEmpty(this.#next)) break;
      else this.#start();
    }
    await this.#closed;
  }

  #schedule(): void {
    if (this.#state.kind !== 'idle' || isEmpty(this.#next)) return;
    if (this.#delayMs === 0) this.#start();
    else this.#state = { kind: 'due', timer: setTimeout(() => this.#start(), this.#delayMs) };
  }

  #start(): void {
    assert(!('done' in this.#state), 'one commit runs at a time');
    if (this.#state.kind === 'due') clearTimeout(this.#state.timer);
    const batch = this.#next;
    this.#next = emptyBatch();
    const hangTimer = setTimeout(() => this.#hang(done), limits.decisionDeadlineMs).unref();
    const done = this.#sync(batch)
      .then((outcome) => this.#settle(batch, outcome))
      .finally(() => {
        clearTimeout(hangTimer);
        this.#state = { kind: 'idle' };
        this.#schedule();
      });
    this.#state = { kind: 'syncing', done };
  }

  #hang(done: Promise<void>): void {
    this.#state = { kind: 'hanging', done };
    this.#deps.logger.error({ folder: this.#deps.folder }, 'an fsync of the spool has not finished in time');
  }

  async #sync({ dirtyFiles, folder }: Batch): Promise<CommitOutcome> {
    if (this.#disk === 'failed') return 'unknown';
    const { files, onSynced, onFailed } = this.#deps;
    try {
      const beganAtMs = performance.now();
      await Promise.all([...dirtyFiles].map((file) => files.syncData(file)));
      if (folder === 'dirty') await files.syncFolder(this.#deps.folder);
      onSynced((performance.now() - beganAtMs) / 1_000);
      return 'durable';
    } catch (error) {
      this.#disk = 'failed';
      onFailed(error);
      return 'unknown';
    }
  }

  #settle({ waiting, closing }: Batch, outcome: CommitOutcome): void {
    for (const onSettled of waiting) onSettled(outcome);
    if (closing.length === 0) return;
    this.#closed = Promise.all([this.#closed, ...closing.map((file) => this.#closeFile(file))]).then(
      () => undefined,
    );
  }

  async #closeFile(file: number): Promise<void> {
    try {
      await this.#deps.files.close(file);
    } catch (error) {
      // Its content is synced already: only a descriptor is lost.
      this.#deps.logger.warn({ err: error }, 'a full segment of the spool could not be closed');
    }
  }
}
