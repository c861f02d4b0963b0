import { setPriority } from 'node:os';
import { parentPort, workerData } from 'node:worker_threads';
import { must } from '../../shared/errors/assert.ts';
import { connectionTrouble } from '../../shared/runtime/connection-trouble.ts';
import { codeOf } from '../../shared/runtime/system-error.ts';
import type { FromCaller, ToCaller } from './caller-messages.ts';
import { httpCaller } from './http-caller.ts';

// The whole program of the thread that calls the control plane over HTTP. Both sides run the same build, so
// messages have their types.
const main = must(parentPort, 'this thread is started by caller-thread.ts');
const caller = httpCaller(workerData);
standBehindDecisions();
const underWay = new Map<number, AbortController>();
const tell = (news: FromCaller): void => main.postMessage(news);

main.on('message', (message: ToCaller) => {
  const { id } = message;
  if (message.kind === 'cancel') {
    underWay.get(id)?.abort();
    return;
  }
  const ending = new AbortController();
  underWay.set(id, ending);
  caller
    .attempt(message.call, ending.signal)
    .then(
      (answer) => tell({ kind: 'answered', id, answer }),
      (error: unknown) => tell({ kind: 'failed', id, ...failureOf(error) }),
    )
    .finally(() => underWay.delete(id));
});

/** With an explanation for the operator, if there is one. */
function failureOf(error: unknown): { readonly message: string; readonly code: string | null } {
  const { code, meaning } = connectionTrouble(error, 'NODE_EXTRA_CA_CERTS');
  const message = error instanceof Error ? error.message : String(error);
  return {
    message: meaning === null ? message : `${message === '' ? code : message}. ${meaning}`,
    code: codeOf(error) ?? code,
  };
}

/**
 * On a single core the thread that decides comes first. A larger step would make changes wait behind other
 * programs. Only Linux has priorities per thread.
 */
function standBehindDecisions(): void {
  if (process.platform !== 'linux') return;
  try {
    setPriority(1);
  } catch {
    // A sandbox may forbid the call; the threads are then equal.
  }
}
