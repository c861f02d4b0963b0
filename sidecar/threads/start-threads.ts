/**
 * Room `sidecar/threads`: several sidecars of one process on one port; `thread-worker.ts` is each of them.
 */

import { Worker } from 'node:worker_threads';
import { AggregatorRegistry, type Registry } from 'prom-client';
import { limits } from '../../shared/model/limits.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { systemRandom } from '../../shared/runtime/random.ts';
import { retryPause } from '../../shared/runtime/retry-pause.ts';
import type { SidecarSettings } from '../../shared/runtime/settings.ts';
import { StartError } from '../../shared/runtime/start-error.ts';
import {
  answerQuestions,
  ask,
  metricsMsMax,
  type ThreadReport,
  type ThreadStart,
} from './thread-questions.ts';

const runsFromSource = import.meta.url.endsWith('.ts');
const workerUrl = new URL(runsFromSource ? './thread-worker.ts' : './thread-worker.js', import.meta.url);

/** A little more than a thread's own limit for closing. */
const closeMsMax = limits.drainMsMax + 2_000;
/**
 * A starting thread reads the message only once it has started. It owes no client an answer, so the wait is
 * shorter.
 */
const closeStartingMsMax = limits.drainMsMax / 2;

export interface SidecarThreads {
  /** Resolves when each thread has, or has had, a state to decide on. */
  readonly ready: Promise<void>;
  /** Of all of them together, and of this thread. */
  metrics(): Promise<Registry>;
  startDraining(): void;
  close(): Promise<void>;
}

/**
 * Several sidecars in one process on one port; the kernel spreads the connections. Each has its own replica,
 * spool and sidecar id, so nothing is shared and nothing locked. Resolves when all listen, rejects when one
 * cannot.
 *
 *     starting ──listening──> serving ──exits by itself──> pause (doubling) ──> starting
 *        └──failed──> (the start rejects, or it is tried again)      serving ──close──> closed
 */
export async function startThreads(options: {
  readonly settings: SidecarSettings;
  readonly port: number;
  /** Metrics of this thread, which decides nothing. */
  readonly own: Registry;
  readonly logger: Logger;
}): Promise<SidecarThreads> {
  const { port, own, logger } = options;
  // Their metrics are exported together, here.
  const settings = { ...options.settings, OTEL_METRICS_EXPORTER: 'none' };
  const threads = Array.from(
    { length: settings.SIDECAR_THREADS },
    (_, index) => new SidecarThread({ settings, port, index }, metricsOfAll, logger),
  );
  async function metrics(): Promise<Registry> {
    const figures = await Promise.allSettled([
      ...threads.map((thread) => thread.metrics()),
      own.getMetricsAsJSON(),
    ]);
    return AggregatorRegistry.aggregate(
      figures.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : [])),
    );
  }
  async function metricsOfAll(): Promise<string> {
    return (await metrics()).metrics();
  }
  const close = async () => {
    await Promise.all(threads.map((thread) => thread.close()));
  };
  try {
    await Promise.all(threads.map((thread) => thread.start()));
  } catch (error) {
    await close();
    throw error;
  }
  const startDraining = () => {
    for (const thread of threads) thread.startDraining();
  };
  const ready = Promise.all(threads.map((thread) => thread.ready)).then(() => undefined);
  return { ready, metrics, startDraining, close };
}

class SidecarThread {
  readonly ready: Promise<void>;
  #becomeReady: () => void = () => undefined;
  readonly #start: ThreadStart;
  readonly #metricsOfAll: () => Promise<string>;
  readonly #logger: Logger;
  /** Null before the start and between an exit and the next try. */
  #worker: Worker | null = null;
  readonly #pause = retryPause(systemRandom(), { firstMs: limits.retryFirstMs, lastMs: limits.retryLastMs });
  #retry: NodeJS.Timeout | null = null;
  #isListening = false;
  #isClosed = false;

  constructor(start: ThreadStart, metricsOfAll: () => Promise<string>, logger: Logger) {
    this.#start = start;
    this.#metricsOfAll = metricsOfAll;
    this.#logger = logger.child({ thread: start.index });
    this.ready = new Promise((resolve) => {
      this.#becomeReady = resolve;
    });
  }

  /** Resolves when it listens; from then on it is restarted whenever it ends by itself. */
  async start(): Promise<void> {
    const worker = startWorker(this.#start);
    this.#worker = worker;
    worker.on('message', (message: ThreadReport) => {
      if ('kind' in message && message.kind === 'ready') this.#becomeReady();
    });
    answerQuestions(worker, (question) =>
      question === 'metrics_of_all' ? this.#metricsOfAll() : Promise.reject(new Error(question)),
    );
    const exited = exitOf(worker).then((reason) => {
      this.#worker = null;
      this.#isListening = false;
      return reason;
    });
    await Promise.race([listening(worker), exited.then((reason) => Promise.reject(reason))]);
    this.#isListening = true;
    this.#pause.reset();
    void exited.then((reason) => this.#startAgain(reason));
  }

  async metrics(): Promise<object> {
    const figures = this.#worker === null ? null : await ask(this.#worker, 'metrics', metricsMsMax);
    return typeof figures === 'object' && figures !== null ? figures : [];
  }

  /** A thread between an exit and the next try is not restarted. */
  startDraining(): void {
    this.#isClosed = true;
    if (this.#retry !== null) clearTimeout(this.#retry);
    if (this.#worker === null) return;
    ask(this.#worker, 'start_draining', closeStartingMsMax).catch((error: Error) =>
      this.#logger.warn({ err: error }, 'a listening thread does not drain'),
    );
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    if (this.#retry !== null) clearTimeout(this.#retry);
    if (this.#worker === null) return;
    const worker = this.#worker;
    try {
      await ask(worker, 'close', this.#isListening ? closeMsMax : closeStartingMsMax);
    } catch (error) {
      if (!this.#isListening) {
        await worker.terminate();
        return;
      }
      // Its listener may be open, and terminating it would crash the whole process.
      this.#logger.error({ err: error }, 'a listening thread did not close in order');
      return;
    }
    await worker.terminate();
  }

  #startAgain(reason: Error): void {
    if (this.#isClosed) return;
    const pauseMs = this.#pause.nextMs();
    this.#logger.error({ err: reason, pause_ms: pauseMs }, 'a listening thread ended; it is restarted');
    this.#retry = setTimeout(() => {
      this.start().catch((error: Error) => this.#startAgain(error));
    }, pauseMs);
  }
}

/** From source, a thread has to register the TypeScript loader itself. */
const startWorker = (start: ThreadStart): Worker =>
  runsFromSource
    ? new Worker(
        `import('tsx/esm/api').then(({ register }) => { register(); return import('${workerUrl}'); })`,
        {
          eval: true,
          workerData: start,
        },
      )
    : new Worker(workerUrl, { workerData: start });

/** Resolves to the reason of the thread's end. Without a listener its errors would end the process. */
const exitOf = (worker: Worker): Promise<Error> =>
  new Promise((resolve) => {
    let failure: Error | null = null;
    worker.on('error', (error) => {
      failure = error;
    });
    worker.once('exit', (code) => resolve(failure ?? new Error(`a listening thread ended with ${code}`)));
  });

/** Resolves when the thread reports that it listens, rejects when it reports that it cannot. */
const listening = (worker: Worker): Promise<void> =>
  new Promise((resolve, reject) => {
    const onMessage = (message: ThreadReport): void => {
      if (!('kind' in message)) return;
      worker.off('message', onMessage);
      if (message.kind !== 'failed') resolve();
      else reject(message.isStartError ? new StartError(message.message) : new Error(message.message));
    };
    worker.on('message', onMessage);
  });
