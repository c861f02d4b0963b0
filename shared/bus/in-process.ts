import type { Logger } from '../runtime/logger.ts';
import type { Bus } from './bus.ts';
import { makeListeners } from './listeners.ts';

/**
 * The bus of one process, in which the control plane and the sidecar run side by side; the contract is at
 * `Bus`. No message is ever lost, so `onInterrupted` never fires. Listeners run after the publisher's turn of
 * the event loop, so none runs in the middle of its work.
 */
export function inProcessBus(logger: Logger): Bus {
  const listeners = makeListeners(logger);
  let waiting: { readonly channel: string; readonly message: string }[] = [];
  let isClosed = false;

  const deliver = () => {
    const batch = waiting;
    waiting = [];
    for (const { channel, message } of batch) listeners.deliver(channel, message);
  };

  return {
    publish: (channel, message) => {
      if (isClosed || !listeners.has(channel)) return;
      if (waiting.length === 0) queueMicrotask(deliver);
      waiting.push({ channel, message });
    },
    subscribe: async (channel, listener) => {
      const remove = isClosed ? () => undefined : listeners.add(channel, listener);
      return async () => remove();
    },
    onInterrupted: () => () => undefined,
    get isConnected() {
      return !isClosed;
    },
    lost: 0,
    close: async () => {
      isClosed = true;
      listeners.clear();
    },
  };
}
