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
  /** Of the error of the operating system or of the HTTP client; null: none. */
  readonly code: string | null;

  constructor(message: string, code: string | null) {
    super(message);
    this.code = code;
  }
}

/**
 * An HttpCaller in a thread of its own. A call takes an HTTP client half a millisecond, in code that runs too
 * seldom to be fast, and a batch of records more: on the event loop that decides, everybody else would wait
 * for that.
 *
 *     attempt ──call──> thread ──HTTP──> control plane
 *        ^────answered or failed──┘
 *
 * A thread that ends fails the calls that it had, and the next call starts another one. So does a thread that
 * does not even report that the time of a call is over.
 */
export interface CallerThread extends HttpCaller {
  /**
   * Bytes in shared memory are sent from where they are, and must not change before the call is over; others
   * are copied. `onOver`: called before the outcome is told, once the thread has reported that it is; never
   * where the thread was given up or the call was ended by its signal.
   */
  attempt(call: Call, signal?: AbortSignal, onOver?: () => void): Promise<Answer>;
  /** Fails the calls under way. */
  close(): Promise<void>;
}

const program = await workerFile(import.meta.url, 'caller-worker');

interface CallerThreadOptions extends HttpCallerOptions {
  readonly logger: Logger;
  /** Default: caller-worker. Tests have some that fail. */
  readonly program?: string;
}

/** Starts the thread at once, so that it has loaded when it is needed. */
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
  /** Null: it has ended, and the next call starts another one. */
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
      // Two timers, because a process that was stopped finds its timers due before the answers that have
      // come.
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
    // Its exit follows. Unheard, the error would end the process.
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

  /** It does not keep its own deadlines: it hangs. */
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

/** To clone a view clones all of the memory that it looks at, unless that is shared. */
const withoutNeighbours = (body: Call['body']): Call['body'] =>
  body instanceof Uint8Array && !(body.buffer instanceof SharedArrayBuffer) ? new Uint8Array(body) : body;
