import { MessageChannel, type MessagePort } from 'node:worker_threads';
import type { SidecarSettings } from '../../shared/runtime/settings.ts';

/** Start parameters of a listening thread. */
export interface ThreadStart {
  readonly settings: SidecarSettings;
  /** From 0; the name of its folder. */
  readonly index: number;
  /** Shared by all threads. */
  readonly port: number;
}

/**
 * Reports of a thread after its start: once that it listens, or why it cannot; then once that it has a state
 * to decide on. The class of an error does not cross threads.
 */
export type ThreadReport =
  | { readonly kind: 'listening' }
  | { readonly kind: 'ready' }
  | { readonly kind: 'failed'; readonly message: string; readonly isStartError: boolean };

/**
 * Questions between main and threads, with their answers:
 *   `metrics`          main -> thread: its figures, as prom-client's JSON
 *   `metrics_of_all`   thread -> main: those of all threads together, as text
 *   `start_draining`   main -> thread: null, when it is not ready any more
 *   `close`            main -> thread: null, when it is closed and about to end
 */
export type ThreadQuestion = 'metrics' | 'metrics_of_all' | 'start_draining' | 'close';

/** A thread that takes longer is missing from the metrics. */
export const metricsMsMax = 1_000;

interface Asked {
  readonly question: ThreadQuestion;
  readonly reply: MessagePort;
}

/** Resolves to the answer; rejects without one in time, and when the other side ends. */
export function ask(
  other: { postMessage(message: Asked, transfer: MessagePort[]): void },
  question: ThreadQuestion,
  timeMsMax: number,
): Promise<unknown> {
  const { port1: here, port2: there } = new MessageChannel();
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => here.close(), timeMsMax);
    // Fires also when the other thread ends, because its port closes with it.
    here.on('close', () => {
      clearTimeout(timer);
      reject(new Error(`a thread of the sidecar has not answered "${question}"`));
    });
    here.on('message', (answer: unknown) => {
      resolve(answer);
      here.close();
    });
    other.postMessage({ question, reply: there }, [there]);
  });
}

/** Answers questions. If an answer fails the asker gets none and times out. */
export function answerQuestions(
  other: { on(event: 'message', listener: (message: unknown) => void): unknown },
  answerTo: (question: ThreadQuestion) => Promise<unknown>,
): void {
  other.on('message', (message) => {
    if (!isAsked(message)) return;
    answerTo(message.question).then(
      (answer) => message.reply.postMessage(answer),
      () => message.reply.close(),
    );
  });
}

const isAsked = (message: unknown): message is Asked =>
  typeof message === 'object' && message !== null && 'question' in message && 'reply' in message;
