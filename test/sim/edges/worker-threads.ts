import type { FromCaller, ToCaller } from '../../../sidecar/replica/caller-messages.ts';
import type { HttpCallerOptions } from '../../../sidecar/replica/http-caller.ts';
import { theProcess } from '../loop.ts';
import { type Network, theNetwork } from '../network.ts';

/*
 * In place of `node:worker_threads`: the thread that calls the control plane over HTTP. What it does with a
 * message is the network's.
 */

export class Worker {
  readonly #network: Network = theNetwork();
  readonly #process = theProcess();
  readonly #options: HttpCallerOptions;
  readonly #cancels = new Map<number, () => void>();
  #onMessage: (news: FromCaller) => void = () => undefined;

  constructor(_program: string, options: { readonly workerData: HttpCallerOptions }) {
    this.#options = options.workerData;
  }

  on(event: 'message' | 'error', listener: (news: FromCaller) => void): this {
    if (event === 'message') this.#onMessage = listener;
    return this;
  }

  once(_event: 'exit', _listener: (code: number) => void): this {
    return this;
  }

  postMessage(message: ToCaller): void {
    const { id } = message;
    if (message.kind === 'cancel') {
      this.#cancels.get(id)?.();
      this.#cancels.delete(id);
      return;
    }
    const cancel = this.#network.call(this.#process, this.#options, message.call, (outcome) => {
      this.#cancels.delete(id);
      this.#onMessage({ ...outcome, id });
    });
    this.#cancels.set(id, cancel);
  }

  async terminate(): Promise<number> {
    for (const cancel of this.#cancels.values()) cancel();
    this.#onMessage = () => undefined;
    return 0;
  }
}
