import { Piscina } from 'piscina';
import { assert } from '../../shared/errors/assert.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { workerFile } from '../../shared/runtime/worker-file.ts';
import { packTask, type VerifyJob } from './verify-task.ts';

/**
 * Threads that check signatures, off the event loop.
 *
 * Contract: `verify` answers one bit per job (see `checkTask`), or rejects, and then the caller must treat
 * all jobs as not verified. A thread that dies fails its tasks and is replaced. The pool has neither timeouts
 * nor a bound of its own: its caller hands out at most `capacity` tasks at once and calls `restart` when one
 * is late.
 */
export interface VerifyPool {
  /** Tasks in flight at once: per thread, one running and one queued. */
  readonly capacity: number;
  verify(jobs: readonly VerifyJob[]): Promise<number>;
  /** Ends every thread, rejecting tasks in flight, and starts new ones. */
  restart(): void;
  /** Resolves once the threads have loaded their engine; tasks wait until then. */
  ready(): Promise<void>;
  close(): Promise<void>;
}

/**
 * With a task queued, a thread does not sleep between two, which costs more than a verification; a third task
 * would only wait longer.
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
      // One task per thread may not reach every thread; as all load the same file at once, it is close
      // enough.
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
    // Threads that handle untrusted bytes get no settings.
    env: {},
    execArgv: [],
  });
  // For an idle thread that dies: it has no tasks to reject, and an 'error' without a listener ends the
  // process.
  piscina.on('error', (error: unknown) => logger.error({ err: error }, 'a verification thread failed'));
  return piscina;
}
