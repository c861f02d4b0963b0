import { EventEmitter } from 'node:events';
import { Redis, type RedisOptions } from 'ioredis';
import type { Logger } from '../runtime/logger.ts';
import { readRedisUrl } from '../runtime/redis-url.ts';
import { Wrong } from '../runtime/setting-values.ts';
import { StartError } from '../runtime/start-error.ts';
import type { Bus } from './bus.ts';
import { makeListeners } from './listeners.ts';
import { isRefusal, redisTrouble } from './redis-trouble.ts';

/** A publication or subscription that takes longer would be overtaken by the next pull. */
const commandMsMax = 500;
const reconnectFirstMs = 50;
const reconnectLastMs = 1_000;
/** First pause after a refusal of Redis, which a person has to fix. */
const refusedFirstMs = 1_000;
const refusedLastMs = 30_000;
/** Causes logged in one outage; alternating ones are logged once each. */
const causesMax = 8;
/** Probes begin after this silence; ten probes a second apart detect a dead peer within 15 s. */
const keepAliveMs = 5_000;

const connectionOptions = {
  // Without a connection a command fails at once: a queued message would arrive after the pull that replaces
  // it.
  enableOfflineQueue: false,
  // An interrupted command is not sent again on the next connection: at most once, and in order.
  maxRetriesPerRequest: 0,
  autoResendUnfulfilledCommands: false,
  // Done here instead, so that `onInterrupted` fires once the subscriptions are active again.
  autoResubscribe: false,
  commandTimeout: commandMsMax,
  connectTimeout: 2_000,
  // It would need permissions that nothing else here needs.
  enableReadyCheck: false,
  disableClientInfo: true,
  keepAlive: keepAliveMs,
  retryStrategy: (attempt: number) =>
    Math.min(reconnectFirstMs * 2 ** Math.min(attempt - 1, 10), reconnectLastMs),
} satisfies RedisOptions;

/**
 * The bus over Redis (or Valkey) pub/sub; the contract is at `Bus`. It keeps no data there, so a Redis that
 * lost its memory changes nothing. Two connections, because a subscribing one takes no other commands; both
 * reconnect for ever. A refused command is retried on the same connection with growing pauses. The URL may
 * hold a password and is never logged. Throws StartError for an invalid URL.
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
  let retry: NodeJS.Timeout | undefined;
  let retryMs = refusedFirstMs;

  /** Whether the subscriptions are in force now. */
  const subscribeTo = async (channels: readonly string[]): Promise<boolean> => {
    try {
      await subscriber.redis.subscribe(...channels);
      return true;
    } catch (error) {
      subscriber.noteBad(error);
      isInForce = false;
      // If Redis does not answer, a new connection subscribes again.
      if (!isRefusal(error)) {
        if (subscriber.redis.status === 'ready') subscriber.redis.disconnect(true);
      } else if (!isClosed) {
        clearTimeout(retry);
        retry = setTimeout(() => void renewSubscriptions(), retryMs);
        retryMs = Math.min(retryMs * 2, refusedLastMs);
      }
      return false;
    }
  };

  const renewSubscriptions = async () => {
    clearTimeout(retry);
    if (isClosed || subscriber.redis.status !== 'ready') return;
    const renewed = new Set<string>();
    // A loop, because subscriptions may be added while Redis is still answering.
    for (let missing = listeners.channels(); missing.length > 0; ) {
      if (!(await subscribeTo(missing))) return;
      for (const channel of missing) renewed.add(channel);
      missing = listeners.channels().filter((channel) => !renewed.has(channel));
    }
    isInForce = true;
    retryMs = refusedFirstMs;
    subscriber.noteGood();
    inForce.emit('yes');
    if (renewed.size > 0) interruption.deliver(interrupted, '');
  };

  subscriber.redis.on('message', (channel, message) => listeners.deliver(channel, message));
  subscriber.redis.on('close', () => {
    isInForce = false;
  });
  subscriber.redis.on('ready', () => void renewSubscriptions());
  publisher.redis.on('ready', () => {
    if (!publisher.isRefused) publisher.noteGood();
  });

  return {
    publish: (channel, message) => {
      if (isClosed) return;
      publisher.redis.publish(channel, message).then(
        () => publisher.noteGood(),
        (error: unknown) => {
          lost++;
          if (isRefusal(error)) publisher.noteBad(error);
        },
      );
    },
    subscribe: async (channel, listener) => {
      if (isClosed) return async () => undefined;
      const remove = listeners.add(channel, listener);
      if (!isInForce) await emitted(inForce, 'yes');
      if (isInForce) await subscribeTo([channel]);
      return async () => {
        remove();
        if (isInForce && !listeners.has(channel))
          await orConnectionLost(subscriber.redis.unsubscribe(channel));
      };
    },
    onInterrupted: (listener) => interruption.add(interrupted, listener),
    get isConnected() {
      return !isClosed && isInForce && publisher.redis.status === 'ready' && !publisher.isRefused;
    },
    get lost() {
      return lost;
    },
    close: async () => {
      isClosed = true;
      clearTimeout(retry);
      listeners.clear();
      interruption.clear();
      subscriber.redis.disconnect();
      // Lets publications in flight arrive first.
      await orConnectionLost(publisher.redis.quit());
      publisher.redis.disconnect();
    },
  };
}

const interrupted = 'interrupted';

interface Connection {
  readonly redis: Redis;
  /** Redis refused the last command that mattered. */
  readonly isRefused: boolean;
  noteBad(error: unknown): void;
  noteGood(): void;
}

/** One connection. Logs the begin and end of an outage and each of its causes once, not every attempt. */
function connection(url: string, logger: Logger, purpose: string): Connection {
  const address = readRedisUrl(url);
  if (address instanceof Wrong) throw new StartError(`REDIS_URL ${address.sentence}.`);
  const { tls, username, password, ...place } = address;
  const redis = new Redis({
    ...connectionOptions,
    ...place,
    ...(username === null ? {} : { username }),
    ...(password === null ? {} : { password }),
    ...(tls === null ? {} : { tls }),
  });
  let isDown = false;
  let isRefused = false;
  const named = new Set<string>();
  const noteBad = (error: unknown) => {
    isRefused = isRefusal(error);
    const { code, meaning } = redisTrouble(error);
    const cause = code ?? '';
    if (isDown && (cause === '' || named.has(cause) || named.size >= causesMax)) return;
    isDown = true;
    named.add(cause);
    logger.warn({ purpose, code, meaning }, 'nothing comes through Redis; sidecars pull meanwhile');
  };
  redis.on('error', noteBad);
  redis.on('reconnecting', () => noteBad(undefined));
  return {
    redis,
    get isRefused() {
      return isRefused;
    },
    noteBad,
    noteGood: () => {
      isRefused = false;
      if (isDown) logger.info({ purpose }, 'the connection to Redis is back');
      isDown = false;
      named.clear();
    },
  };
}

/** Waits for the event, at most as long as for a command, so that a missing Redis blocks nothing. */
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

/** A lost connection has no subscriptions and nothing to wait for. */
async function orConnectionLost(command: Promise<unknown>): Promise<void> {
  await command.catch(() => undefined);
}
