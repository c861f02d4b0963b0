import { limits } from '../../shared/model/limits.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import type { SpoolFiles } from './spool-files.ts';

export type CommitOutcome = 'durable' | 'unknown';

/**
 * Makes written records durable in the background, many with one fsync: what is written while one runs is
 * covered by the next. After a failure it never tries again; see the contract of the spool.
 */
export interface GroupCommit {
  /** An fsync has been running for longer than any caller waits for its answer. */
  readonly isHanging: boolean;
  /**
   * A file was created in the folder: its name has to be durable too, before any record in it is reported
   * to be durable.
   */
  createdFile(): void;
  /**
   * Something was written to the file. `onSettled` is called after the first fsync that began after this
   * call.
   */
  wrote(file: number, onSettled: ((outcome: CommitOutcome) => void) | null): void;
  /**
   * Nothing more is written to the file, nor read from it: it is closed as soon as what was written is
   * durable.
   */
  closeAfterSync(file: number): void;
  /** Syncs and closes what is left. Resolves when nothing waits any more, whatever the outcome. */
  finish(): Promise<void>;
}

export function groupCommit(options: {
  readonly files: SpoolFiles;
  readonly folder: string;
  readonly fsyncMs: number;
  readonly logger: Logger;
  readonly onFailed: (error: unknown) => void;
  /** How long each commit that succeeded took. */
  readonly onSynced: (seconds: number) => void;
}): GroupCommit {
  const { files, folder, logger, onFailed, onSynced } = options;
  // Begun at half the time that is allowed: the other half is for the disk.
  const delayMs = options.fsyncMs / 2;
  const dirtyFiles = new Set<number>();
  let isFolderDirty = false;
  let waiting: ((outcome: CommitOutcome) => void)[] = [];
  let closing: number[] = [];
  let timer: NodeJS.Timeout | null = null;
  let running: Promise<void> | null = null;
  /** All that were to be closed are. No commit waits for that. */
  let closed: Promise<void> = Promise.resolve();
  let hasFailed = false;
  let isHanging = false;

  const isIdle = () => dirtyFiles.size === 0 && closing.length === 0 && !isFolderDirty;

  function schedule(): void {
    if (running !== null || timer !== null || isIdle()) return;
    if (delayMs === 0) start();
    else timer = setTimeout(start, delayMs);
  }

  function start(): void {
    if (timer !== null) clearTimeout(timer);
    timer = null;
    const hangTimer = setTimeout(() => {
      isHanging = true;
      logger.error({ folder }, 'an fsync of the spool has not finished in time');
    }, limits.decisionDeadlineMs).unref();
    running = commit().finally(() => {
      clearTimeout(hangTimer);
      isHanging = false;
      running = null;
      schedule();
    });
  }

  async function commit(): Promise<void> {
    const toSync = [...dirtyFiles];
    const toTell = waiting;
    const toClose = closing;
    const syncFolder = isFolderDirty;
    dirtyFiles.clear();
    waiting = [];
    closing = [];
    isFolderDirty = false;
    let outcome: CommitOutcome = hasFailed ? 'unknown' : 'durable';
    try {
      if (!hasFailed) {
        const beganAtMs = performance.now();
        await Promise.all(toSync.map((file) => files.syncData(file)));
        if (syncFolder) await files.syncFolder(folder);
        onSynced((performance.now() - beganAtMs) / 1_000);
      }
    } catch (error) {
      hasFailed = true;
      outcome = 'unknown';
      onFailed(error);
    }
    for (const tell of toTell) tell(outcome);
    if (toClose.length > 0) closed = Promise.all([closed, ...toClose.map(closeFile)]).then(() => undefined);
  }

  async function closeFile(file: number): Promise<void> {
    try {
      await files.close(file);
    } catch (error) {
      // Its content was synced before: what is lost is a descriptor.
      logger.warn({ err: error }, 'a full segment of the spool could not be closed');
    }
  }

  return {
    get isHanging() {
      return isHanging;
    },
    createdFile() {
      isFolderDirty = true;
    },
    wrote(file, onSettled) {
      dirtyFiles.add(file);
      if (onSettled !== null) waiting.push(onSettled);
      schedule();
    },
    closeAfterSync(file) {
      closing.push(file);
      schedule();
    },
    async finish() {
      while (running !== null || !isIdle()) {
        if (running === null) start();
        await running;
      }
      await closed;
    },
  };
}
