import { fileURLToPath } from 'node:url';
import { Piscina } from 'piscina';
import { assert } from '../../shared/errors/assert.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { signingLimits } from './limits.ts';
import type { ProvenMessage, ProvenSignatures } from './sign-proven.ts';
import type { SignProvenTask, SignTask } from './sign-worker.ts';

/**
 * Threads that sign, so that the event loop links the next batch meanwhile.
 *
 * Contract: `sign` answers the 64-byte signatures of the messages one after the other, or null if the threads
 * did not answer in time or died: the caller then signs by itself, with the same result, because Ed25519 is
 * deterministic. Never rejects. Stores no keys. Callers bound the tasks in flight: each holds a transaction.
 */
export interface SignPool {
  sign(seed: Uint8Array, messages: readonly string[]): Promise<Buffer | null>;
  /** The same for `signProven`. */
  signProven(seed: Uint8Array, asked: readonly ProvenMessage[]): Promise<ProvenSignatures | null>;
  close(): Promise<void>;
}

const signatureBytes = 64;

const runsFromSource = import.meta.url.endsWith('.ts');
const workerFile = fileURLToPath(
  new URL(runsFromSource ? './sign-worker.ts' : './sign-worker.js', import.meta.url),
);

/** `threads`: from 1. They are started with the first task, and end when there is none for a while. */
export function signPool(options: {
  readonly threads: number;
  readonly logger: Logger;
  /** Default: `signingLimits.signTaskMsMax`. */
  readonly taskMsMax?: number;
}): SignPool {
  assert(options.threads >= 1, 'a pool has threads');
  const { threads, logger, taskMsMax = signingLimits.signTaskMsMax } = options;
  let piscina = startThreads(threads, logger);
  let isClosed = false;

  function replace(because: unknown): void {
    logger.warn(
      { err: because, threads },
      'signing threads did not answer; replacing them, and signing without',
    );
    const abandoned = piscina;
    piscina = startThreads(threads, logger);
    abandoned
      .destroy()
      .catch((error: unknown) => logger.error({ err: error }, 'signing threads did not end'));
  }

  async function run(seed: Uint8Array, messages: readonly string[]): Promise<Uint8Array> {
    const lengths = messages[0]?.length ?? 0;
    assert(
      messages.every(({ length }) => length === lengths),
      'the messages of a task have one length',
    );
    return (await piscina.run({ seed, text: messages.join(''), length: lengths })) as Uint8Array;
  }

  /** A task for each thread; null: they did not answer. */
  async function share<Item, Signed>(
    items: readonly Item[],
    task: (part: readonly Item[]) => Promise<Signed>,
  ): Promise<Signed[] | null> {
    if (isClosed) return null;
    const asked = piscina;
    const size = Math.ceil(items.length / threads);
    const parts = Array.from({ length: threads }, (_, i) => items.slice(i * size, (i + 1) * size));
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new Error(`no answer within ${taskMsMax} ms`)), taskMsMax);
    });
    try {
      const tasks = parts.filter(({ length }) => length > 0).map(task);
      return await Promise.race([Promise.all(tasks), late]);
    } catch (error) {
      // Of several that fail together the first replaces the threads.
      if (!isClosed && asked === piscina) replace(error);
      return null;
    } finally {
      clearTimeout(timer);
    }
  }

  return {
    sign: async (seed, messages) => {
      const signed = await share(messages, (part) => run(seed, part));
      return signed === null ? null : Buffer.concat(signed, messages.length * signatureBytes);
    },
    signProven: async (seed, asked) => {
      const signed = await share(asked, async (part) => {
        const task: SignProvenTask = { seed, asked: part };
        return (await piscina.run(task, { name: 'signProven' })) as ProvenSignatures;
      });
      return signed?.flat() ?? null;
    },
    close: async () => {
      isClosed = true;
      await piscina.destroy();
    },
  };
}

type Task = SignTask | SignProvenTask;

function startThreads(threads: number, logger: Logger): Piscina<Task, unknown> {
  const piscina = new Piscina<Task, unknown>({
    filename: workerFile,
    name: 'sign',
    minThreads: 0,
    maxThreads: threads,
    idleTimeout: signingLimits.signIdleMs,
    concurrentTasksPerWorker: 2,
    recordTiming: false,
    // Nothing of the settings reaches the thread; the seed comes with each task.
    env: {},
    execArgv: runsFromSource ? ['--import', 'tsx'] : [],
  });
  // For an idle thread that dies: an 'error' without a listener ends the process.
  piscina.on('error', (error: unknown) => logger.error({ err: error }, 'a signing thread failed'));
  return piscina;
}
