import { MessageChannel, type MessagePort } from 'node:worker_threads';
import type { SidecarSettings } from '../../shared/runtime/settings.ts';

/** What a listening thread is started with. */
export interface ThreadStart {
  readonly settings: SidecarSettings;
  /** From 0; the name of its folder. */
  readonly index: number;
  /** All threads share it. */
  readonly port: number;
}

/**
 * What a thread reports after its start: once that it listens, or why it cannot, and then once that it has a
 * state to decide on. The class of an error does not travel between threads.
 */
export type ThreadReport =
  | { readonly kind: 'listening' }
  | { readonly kind: 'ready' }
  | { readonly kind: 'failed'; readonly message: string; readonly isStartError: boolean };

/**
 * What one side asks the other, and what is answered:
 *   `metrics`          main -> thread: its figures, as prom-client's JSON
 *   `metrics_of_all`   thread -> main: those of all threads together, as text
 *   `start_draining`   main -> thread: null, when it is not ready any more
 *   `close`            main -> thread: null, when it is closed and about to end
 */
export type ThreadQuestion = 'metrics' | 'metrics_of_all' | 'start_draining' | 'close';

/** A thread that takes longer to give its figures is left out of them. */
export const metricsMsMax = 1_000;

interface Asked {
  readonly question: ThreadQuestion;
  readonly reply: MessagePort;
}

/** Resolves to the answer; rejects when there is none in time or the other side ends. */
export function ask(
  other: { postMessage(message: Asked, transfer: MessagePort[]): void },
  question: ThreadQuestion,
  timeMsMax: number,
): Promise<unknown> {
  const { port1: here, port2: there } = new MessageChannel();
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => here.close(), timeMsMax);
    // Also when the other thread ends: its end of the channel ends with it.
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

/**
 * Answers what is asked. Where the answer fails the asker gets nothing in its place, and gives up by itself.
 */
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
