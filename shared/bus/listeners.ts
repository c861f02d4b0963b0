import type { Logger } from '../runtime/logger.ts';

type Listener = (message: string) => void;

/** Subscriptions by channel, shared by the adapters of the bus. */
export interface Listeners {
  /** The result ends this one subscription, also where the same function was added twice. */
  add(channel: string, listener: Listener): () => void;
  has(channel: string): boolean;
  channels(): string[];
  /** Never throws: exceptions of a listener are logged. */
  deliver(channel: string, message: string): void;
  clear(): void;
}

export function makeListeners(logger: Logger): Listeners {
  const byChannel = new Map<string, Set<Listener>>();
  return {
    add: (channel, listener) => {
      const own: Listener = (message) => listener(message);
      byChannel.set(channel, (byChannel.get(channel) ?? new Set()).add(own));
      return () => {
        const rest = byChannel.get(channel);
        rest?.delete(own);
        if (rest?.size === 0) byChannel.delete(channel);
      };
    },
    has: (channel) => byChannel.has(channel),
    channels: () => [...byChannel.keys()],
    deliver: (channel, message) => {
      // Copied, because a listener may subscribe or unsubscribe while it runs. Checked again, because an
      // earlier listener may have ended this subscription or closed the bus.
      for (const listener of [...(byChannel.get(channel) ?? [])]) {
        if (byChannel.get(channel)?.has(listener) !== true) continue;
        try {
          listener(message);
        } catch (error) {
          logger.error({ err: error, channel }, 'a listener of the bus threw');
        }
      }
    },
    clear: () => byChannel.clear(),
  };
}
