import { Piscina } from 'piscina';
import { assert } from '../../shared/errors/assert.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { workerFile } from '../../shared/runtime/worker-file.ts';
import { packTask, type VerifyJob } from './verify-task.ts';

/**
 * Threads that check signatures, so that the event loop does not.
 *
 * Contract: `verify` answers one bit per job (see `checkTask`) or rejects, and then says nothing about any
 * job: the caller must treat them all as not verified. A thread that dies takes its tasks with it and is
 * replaced. The pool does not watch the time and has no bound of its own: its caller hands out at most
 * `capacity` tasks at once and calls `restart` when one is late.
 */
export interface VerifyPool {
  /** Tasks that may be under way together: one being worked on and one on its way, per thread. */
  readonly capacity: number;
  verify(jobs: readonly VerifyJob[]): Promise<number>;
  /** Ends every thread, rejecting what is under way, and starts new ones. */
  restart(): void;
  /** Resolves once the threads have loaded their engine: until then a task waits for them. */
  ready(): Promise<void>;
  close(): Promise<void>;
}

/**
 * A thread that always has its next task at hand does not fall asleep between two, which costs more than a
 * verification; a third would only wait longer.
 */
const tasksPerThread = 2;

const program = await workerFile(import.meta.url, 'verify-worker');

/** `threads`: from 1; each is a core's worth of verifications. */
export function verifyPool(options: { readonly threads: number; readonly logger: Logger }): VerifyPool {
  assert(options.threads >= 1, 'a pool has threads');
  const { logger } = options;
  let piscina = startThreads(options.threads, logger);
  let isClosed = false;
  const run = async (packed: Uint8Array<ArrayBuffer>): Promise<number> => {
    // Piscina would start a new thread for it.
    assert(!isClosed, 'a closed pool gets no tasks');
    return piscina.run(packed, { transferList: [packed.buffer] });
  };
  return {
    capacity: options.threads * tasksPerThread,
    verify: (jobs) => run(packTask(jobs)),
    restart: () => {
      if (isClosed) return;
      logger.warn({ threads: options.threads }, 'replacing the verification threads');
      const abandoned = piscina;
      piscina = startThreads(options.threads, logger);
      abandoned
        .destroy()
        .catch((error: unknown) => logger.error({ err: error }, 'verification threads did not end'));
    },
    ready: async () => {
      // One task per thread is not promised to reach every thread; as all load the same file at once, it is
      // near enough.
      await Promise.all(Array.from({ length: options.threads }, () => run(packTask([]))));
    },
    close: async () => {
      isClosed = true;
      await piscina.destroy();
    },
  };
}

function startThreads(threads: number, logger: Logger): Piscina<Uint8Array, number> {
  const piscina = new Piscina<Uint8Array, number>({
    filename: program,
    name: 'verify',
    minThreads: threads,
    maxThreads: threads,
    concurrentTasksPerWorker: tasksPerThread,
    recordTiming: false,
    // Nothing of the settings reaches a thread that handles strangers' bytes.
    env: {},
    execArgv: [],
  });
  // A thread that dies while it has nothing to do: its tasks are not there to reject, and an unheard 'error'
  // ends the process.
  piscina.on('error', (error: unknown) => logger.error({ err: error }, 'a verification thread failed'));
  return piscina;
}
