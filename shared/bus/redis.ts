import { EventEmitter } from 'node:events';
import { Redis, type RedisOptions } from 'ioredis';
import type { Logger } from '../runtime/logger.ts';
import { readRedisUrl } from '../runtime/redis-url.ts';
import { Wrong } from '../runtime/setting-values.ts';
import { StartError } from '../runtime/start-error.ts';
import type { Bus } from './bus.ts';
import { type Listeners, makeListeners } from './listeners.ts';
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
export const redisBus = (options: { readonly url: string; readonly logger: Logger }): Bus =>
  new RedisBus(options);

/**
 * State of the subscriptions:
 *
 *     renewing ──all renewed──> in force ──refused, or connection lost──> renewing
 *        └──────────────close──────┴──> closed
 */
class RedisBus implements Bus {
  readonly #listeners: Listeners;
  readonly #interruption: Listeners;
  readonly #publisher: Connection;
  readonly #subscriber: Connection;
  readonly #inForce = new EventEmitter();
  #state: 'renewing' | 'in force' | 'closed' = 'renewing';
  #lost = 0;
  #retry: NodeJS.Timeout | undefined;
  #retryMs = refusedFirstMs;

  constructor({ url, logger }: { readonly url: string; readonly logger: Logger }) {
    this.#listeners = makeListeners(logger);
    this.#interruption = makeListeners(logger);
    this.#publisher = connection(url, logger, 'publish');
    this.#subscriber = connection(url, logger, 'subscribe');
    const [{ redis: publisher }, { redis: subscriber }] = [this.#publisher, this.#subscriber];
    subscriber.on('message', (channel, message) => this.#listeners.deliver(channel, message));
    subscriber.on('close', () => this.#noteLoss());
    subscriber.on('ready', () => void this.#renewSubscriptions());
    publisher.on('ready', () => {
      if (!this.#publisher.isRefused) this.#publisher.noteGood();
    });
  }

  get isConnected(): boolean {
    const { redis, isRefused } = this.#publisher;
    return this.#isInForce && redis.status === 'ready' && !isRefused;
  }

  get lost(): number {
    return this.#lost;
  }

  publish(channel: string, message: string): void {
    if (this.#isClosed) return;
    this.#publisher.redis.publish(channel, message).then(
      () => this.#publisher.noteGood(),
      (error: unknown) => {
        this.#lost++;
        if (isRefusal(error)) this.#publisher.noteBad(error);
      },
    );
  }

  async subscribe(channel: string, listener: (message: string) => void): Promise<() => Promise<void>> {
    if (this.#isClosed) return async () => undefined;
    const remove = this.#listeners.add(channel, listener);
    if (!this.#isInForce) await emitted(this.#inForce, 'yes');
    if (this.#isInForce) await this.#subscribeTo([channel]);
    return async () => {
      remove();
      if (this.#isInForce && !this.#listeners.has(channel))
        await orConnectionLost(this.#subscriber.redis.unsubscribe(channel));
    };
  }

  onInterrupted(listener: () => void): () => void {
    return this.#interruption.add(interrupted, listener);
  }

  async close(): Promise<void> {
    this.#state = 'closed';
    clearTimeout(this.#retry);
    this.#listeners.clear();
    this.#interruption.clear();
    this.#subscriber.redis.disconnect();
    // Lets publications in flight arrive first.
    await orConnectionLost(this.#publisher.redis.quit());
    this.#publisher.redis.disconnect();
  }

  // Getters, because the state may change at every await.
  get #isClosed(): boolean {
    return this.#state === 'closed';
  }

  get #isInForce(): boolean {
    return this.#state === 'in force';
  }

  #noteLoss(): void {
    if (!this.#isClosed) this.#state = 'renewing';
  }

  async #renewSubscriptions(): Promise<void> {
    clearTimeout(this.#retry);
    if (this.#isClosed || this.#subscriber.redis.status !== 'ready') return;
    const renewed = new Set<string>();
    // Repeated, because a listener may be added while Redis is still answering.
    for (let missing = this.#listeners.channels(); missing.length > 0; ) {
      if (!(await this.#subscribeTo(missing))) return;
      for (const channel of missing) renewed.add(channel);
      missing = this.#listeners.channels().filter((channel) => !renewed.has(channel));
    }
    if (this.#isClosed) return;
    this.#state = 'in force';
    this.#retryMs = refusedFirstMs;
    this.#subscriber.noteGood();
    this.#inForce.emit('yes');
    if (renewed.size > 0) this.#interruption.deliver(interrupted, '');
  }

  /** Whether the subscriptions are in force now. */
  async #subscribeTo(channels: readonly string[]): Promise<boolean> {
    const { redis } = this.#subscriber;
    try {
      await redis.subscribe(...channels);
      return true;
    } catch (error) {
      this.#subscriber.noteBad(error);
      this.#noteLoss();
      // Without an answer, a new connection subscribes to all of them anew.
      if (!isRefusal(error)) {
        if (redis.status === 'ready') redis.disconnect(true);
      } else if (!this.#isClosed) {
        clearTimeout(this.#retry);
        this.#retry = setTimeout(() => void this.#renewSubscriptions(), this.#retryMs);
        this.#retryMs = Math.min(this.#retryMs * 2, refusedLastMs);
      }
      return false;
    }
  }
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
