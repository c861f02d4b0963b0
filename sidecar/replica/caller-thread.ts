import { Worker } from 'node:worker_threads';
import { must } from '../../shared/errors/assert.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { workerFile } from '../../shared/runtime/worker-file.ts';
import type { FromCaller, ToCaller } from './caller-messages.ts';
import type { Answer, Call, HttpCaller, HttpCallerOptions } from './http-caller.ts';
import { replicaLimits } from './limits.ts';

/** A call got no answer from the control plane. */
class CallFailed extends Error {
  override readonly name = 'CallFailed';
  /** From the operating system or the HTTP client; null: none. */
  readonly code: string | null;

  constructor(message: string, code: string | null) {
    super(message);
    this.code = code;
  }
}

/**
 * An HttpCaller in its own thread. An HTTP client needs half a millisecond per call, in code that runs too
 * seldom to be optimized, and more for a batch of records; the event loop that decides must not wait for
 * that.
 *
 *     attempt ──call──> thread ──HTTP──> control plane
 *        ^────answered or failed──┘
 *
 * A thread that ends fails its calls, and the next call starts another thread. A thread that does not report
 * the timeout of a call counts as hung and is replaced likewise.
 */
export interface CallerThread extends HttpCaller {
  /**
   * Bytes in shared memory are sent in place and must not change before the call is over; others are copied.
   * `onOver` is called before the promise settles, once the thread has reported the outcome; never if the
   * thread was given up or the signal ended the call.
   */
  attempt(call: Call, signal?: AbortSignal, onOver?: () => void): Promise<Answer>;
  /** Fails the calls under way. */
  close(): Promise<void>;
}

const program = await workerFile(import.meta.url, 'caller-worker');

interface CallerThreadOptions extends HttpCallerOptions {
  readonly logger: Logger;
  /** Default: caller-worker. Tests pass failing ones. */
  readonly program?: string;
}

/** Starts the thread at once, so that it is loaded when needed. */
export const callerThread = (options: CallerThreadOptions): CallerThread => new Caller(options);

interface Waiting {
  resolve(answer: Answer): void;
  reject(error: unknown): void;
  /** Ends what watches the call. */
  unwatch(): void;
  readonly onOver: () => void;
}

class Caller implements CallerThread {
  readonly #options: CallerThreadOptions;
  readonly #waiting = new Map<number, Waiting>();
  /** Null: ended; the next call starts another. */
  #thread: Worker | null;
  #lastId = 0;
  #isClosed = false;

  constructor(options: CallerThreadOptions) {
    this.#options = options;
    this.#thread = this.#start();
  }

  attempt(call: Call, signal?: AbortSignal, onOver: () => void = () => undefined): Promise<Answer> {
    return new Promise((resolve, reject) => {
      if (this.#isClosed) throw new CallFailed('the connections to the control plane are closed', null);
      signal?.throwIfAborted();
      this.#thread ??= this.#start();
      const thread = this.#thread;
      const id = ++this.#lastId;
      // Two timers, because after a stop of the process timers fire before the answers that arrived are read.
      let timer = setTimeout(() => {
        timer = setTimeout(() => this.#abandon(thread), replicaLimits.callerGraceMs);
      }, call.timeMsMax);
      const onAbort = () => {
        thread.postMessage({ kind: 'cancel', id } satisfies ToCaller);
        this.#take(id)?.reject(must(signal, 'it has ended the call').reason);
      };
      signal?.addEventListener('abort', onAbort, { once: true });
      const unwatch = () => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', onAbort);
      };
      this.#waiting.set(id, { resolve, reject, unwatch, onOver });
      const { body } = call;
      const message: ToCaller = { kind: 'call', id, call: { ...call, body: withoutNeighbours(body) } };
      thread.postMessage(message);
    });
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    const thread = this.#thread;
    this.#thread = null;
    this.#failAll('the connections to the control plane were closed');
    await thread?.terminate();
  }

  #start(): Worker {
    const { origin, headers, logger } = this.#options;
    const thread = new Worker(this.#options.program ?? program, {
      workerData: { origin, headers },
      execArgv: [],
    });
    thread.on('message', (news: FromCaller) => {
      const waiting = this.#take(news.id);
      waiting?.onOver();
      if (news.kind === 'answered') waiting?.resolve(news.answer);
      else waiting?.reject(new CallFailed(news.message, news.code));
    });
    // Its exit follows. Without a listener the error would end the process.
    thread.on('error', (error) =>
      logger.error({ err: error }, 'the thread that calls the control plane failed'),
    );
    thread.once('exit', (code) => {
      if (this.#thread !== thread) return;
      this.#thread = null;
      logger.error(
        { code },
        'the thread that calls the control plane has ended; the next call starts another',
      );
      this.#failAll('the thread that calls the control plane has ended');
    });
    return thread;
  }

  /** It missed its own deadline, so it hangs. */
  #abandon(thread: Worker): void {
    if (this.#thread !== thread) return;
    this.#thread = null;
    this.#options.logger.error(
      {},
      'the thread that calls the control plane hangs; the next call starts another',
    );
    this.#failAll('the thread that calls the control plane hangs');
    void thread.terminate();
  }

  #failAll(message: string): void {
    for (const id of [...this.#waiting.keys()]) this.#take(id)?.reject(new CallFailed(message, null));
  }

  #take(id: number): Waiting | undefined {
    const waiting = this.#waiting.get(id);
    waiting?.unwatch();
    this.#waiting.delete(id);
    return waiting;
  }
}

/** Cloning a view clones its whole buffer, unless that is shared. */
const withoutNeighbours = (body: Call['body']): Call['body'] =>
  body instanceof Uint8Array && !(body.buffer instanceof SharedArrayBuffer) ? new Uint8Array(body) : body;
