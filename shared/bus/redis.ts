import { EventEmitter } from 'node:events';
import { Redis, type RedisOptions } from 'ioredis';
import type { Logger } from '../runtime/logger.ts';
import type { Bus } from './bus.ts';
import { makeListeners } from './listeners.ts';

/** A publication or subscription that takes longer would be overtaken by the next pull. */
const commandMsMax = 500;
const reconnectFirstMs = 50;
const reconnectLastMs = 1_000;
/**
 * Probes begin after this silence; with ten probes a second apart a dead peer is noticed 15 s after its last
 * word.
 */
const keepAliveMs = 5_000;

const connectionOptions = {
  // While there is no connection a command fails at once: a message that waits is worth less than the pull
  // that replaces it.
  enableOfflineQueue: false,
  // An interrupted command is not sent again on the next connection: at most once, and in order.
  maxRetriesPerRequest: 0,
  autoResendUnfulfilledCommands: false,
  // Done here instead, so that `onInterrupted` fires when the subscriptions are in force again and not
  // before.
  autoResubscribe: false,
  commandTimeout: commandMsMax,
  connectTimeout: 2_000,
  keepAlive: keepAliveMs,
  retryStrategy: (attempt: number) =>
    Math.min(reconnectFirstMs * 2 ** Math.min(attempt - 1, 10), reconnectLastMs),
} satisfies RedisOptions;

/**
 * The bus over Redis (or Valkey) pub/sub; the contract is at `Bus`. It keeps no data there, so a Redis that
 * lost its memory changes nothing. Two connections, because a subscribing one takes no other commands; both
 * reconnect for ever. The URL may hold a password and is never logged.
 */
export function redisBus(options: { readonly url: string; readonly logger: Logger }): Bus {
  const { logger } = options;
  const listeners = makeListeners(logger);
  const interruption = makeListeners(logger);
  const publisher = connection(options.url, logger, 'publish');
  const subscriber = connection(options.url, logger, 'subscribe');
  const inForce = new EventEmitter();
  let isInForce = false;
  let isClosed = false;
  let lost = 0;

  const renewSubscriptions = async () => {
    const renewed = new Set<string>();
    // Again and again, because somebody may begin to listen while Redis is still answering.
    for (let missing = listeners.channels(); missing.length > 0; ) {
      if (!(await subscribeTo(subscriber, missing))) return;
      for (const channel of missing) renewed.add(channel);
      missing = listeners.channels().filter((channel) => !renewed.has(channel));
    }
    isInForce = true;
    inForce.emit('yes');
    if (renewed.size > 0) interruption.deliver(interrupted, '');
  };

  subscriber.on('message', (channel, message) => listeners.deliver(channel, message));
  subscriber.on('close', () => {
    isInForce = false;
  });
  subscriber.on('ready', () => void renewSubscriptions());

  return {
    publish: (channel, message) => {
      if (isClosed) return;
      publisher.publish(channel, message).catch(() => {
        lost++;
      });
    },
    subscribe: async (channel, listener) => {
      if (isClosed) return async () => undefined;
      const remove = listeners.add(channel, listener);
      if (!isInForce) await emitted(inForce, 'yes');
      if (isInForce) await subscribeTo(subscriber, [channel]);
      return async () => {
        remove();
        if (isInForce && !listeners.has(channel)) await orConnectionLost(subscriber.unsubscribe(channel));
      };
    },
    onInterrupted: (listener) => interruption.add(interrupted, listener),
    get isConnected() {
      return !isClosed && isInForce && publisher.status === 'ready';
    },
    get lost() {
      return lost;
    },
    close: async () => {
      isClosed = true;
      listeners.clear();
      interruption.clear();
      subscriber.disconnect();
      // Lets publications on their way arrive first.
      await orConnectionLost(publisher.quit());
      publisher.disconnect();
    },
  };
}

const interrupted = 'interrupted';

/** One connection. Its trouble is logged when it begins and when it ends, not at every attempt in between. */
function connection(url: string, logger: Logger, purpose: string): Redis {
  const redis = new Redis(url, connectionOptions);
  let isDown = false;
  const report = (error?: Error) => {
    if (isDown) return;
    isDown = true;
    logger.warn(
      { purpose, code: errorCode(error) },
      'the connection to Redis is down; sidecars pull meanwhile',
    );
  };
  redis.on('error', report);
  redis.on('reconnecting', () => report());
  redis.on('ready', () => {
    if (isDown) logger.info({ purpose }, 'the connection to Redis is back');
    isDown = false;
  });
  return redis;
}

/** Such as ECONNREFUSED or NOAUTH; the message may name the user. */
const errorCode = (error: Error | undefined): string | null =>
  error === undefined ? null : 'code' in error && typeof error.code === 'string' ? error.code : error.name;

/**
 * Whether the subscriptions are in force. Where Redis does not say so, a new connection makes them all anew.
 */
async function subscribeTo(subscriber: Redis, channels: readonly string[]): Promise<boolean> {
  try {
    await subscriber.subscribe(...channels);
    return true;
  } catch {
    if (subscriber.status === 'ready') subscriber.disconnect(true);
    return false;
  }
}

/** Waits for the event, but not longer than for a command: without Redis nobody hangs. */
function emitted(emitter: EventEmitter, event: string): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      emitter.off(event, done);
      resolve();
    };
    const timer = setTimeout(done, commandMsMax);
    emitter.on(event, done);
  });
}

/** A connection that is gone has neither subscriptions nor anything to wait for. */
async function orConnectionLost(command: Promise<unknown>): Promise<void> {
  await command.catch(() => undefined);
}
