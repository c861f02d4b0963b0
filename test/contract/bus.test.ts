import { Redis } from 'ioredis';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Bus } from '../../shared/bus/bus.ts';
import { inProcessBus } from '../../shared/bus/in-process.ts';
import { redisBus } from '../../shared/bus/redis.ts';
import { type Logger, silentLogger } from '../../shared/runtime/logger.ts';
import { until } from '../support/base/until.ts';
import { type TestRedis, testRedis } from '../support/peers/redis.ts';

/** Counts what is reported as an error. */
const countingLogger = (): Logger & { errors: number } => ({
  ...silentLogger,
  errors: 0,
  error() {
    this.errors += 1;
  },
});

interface Adapter {
  readonly name: string;
  /** What it needs from outside, for one test. */
  prepare(): Promise<{ makeBus(logger: Logger): Bus; end(): Promise<void> }>;
}

const adapters: readonly Adapter[] = [
  {
    name: 'in-process',
    prepare: async () => ({ makeBus: inProcessBus, end: async () => undefined }),
  },
  {
    name: 'Redis',
    prepare: async () => {
      const redis = await testRedis();
      return {
        makeBus: (logger) => redisBus({ url: redis.url, logger }),
        end: () => redis.stop(),
      };
    },
  },
];

describe.each(adapters)('every bus: $name', ({ prepare }) => {
  let outside: Awaited<ReturnType<Adapter['prepare']>>;
  let logger: ReturnType<typeof countingLogger>;
  let bus: Bus;

  beforeEach(async () => {
    outside = await prepare();
    logger = countingLogger();
    bus = outside.makeBus(logger);
    await until(() => bus.isConnected, { what: 'the bus connects' });
  });
  afterEach(async () => {
    await bus.close();
    await outside.end();
  });

  /**
   * Publishes to the channel until the listener behind `seen` has it: everything published before has then
   * arrived or is lost.
   */
  const settled = async (channel: string) => {
    let arrived = false;
    const stop = await bus.subscribe(channel, (message) => {
      arrived ||= message === 'the end';
    });
    bus.publish(channel, 'the end');
    await until(() => arrived, { what: 'the last message arrives' });
    await stop();
  };

  it('delivers the messages of a channel in the order of publishing, to every listener of that channel and no other', async () => {
    const sent = Array.from({ length: 200 }, (_, i) => `message ${i}`);
    const first: string[] = [];
    const second: string[] = [];
    const other: string[] = [];
    await bus.subscribe('a', (message) => first.push(message));
    await bus.subscribe('a', (message) => second.push(message));
    await bus.subscribe('b', (message) => other.push(message));
    for (const message of sent) bus.publish('a', message);
    await until(() => first.length >= sent.length && second.length >= sent.length, { what: 'all arrive' });
    expect(first).toEqual(sent);
    expect(second).toEqual(sent);
    await settled('b');
    expect(other).toEqual(['the end']);
  });

  it('never runs a listener inside publish', async () => {
    const order: string[] = [];
    await bus.subscribe('a', () => order.push('delivered'));
    bus.publish('a', 'x');
    order.push('published');
    await until(() => order.length === 2, { what: 'the message arrives' });
    expect(order).toEqual(['published', 'delivered']);
  });

  it('keeps a listener that throws from harming the others, and reports it', async () => {
    const seen: string[] = [];
    await bus.subscribe('a', () => {
      throw new Error('on purpose');
    });
    await bus.subscribe('a', (message) => seen.push(message));
    bus.publish('a', '1');
    bus.publish('a', '2');
    await until(() => seen.length === 2, { what: 'both arrive at the other listener' });
    expect(logger.errors).toBe(2);
  });

  it('stops delivering to a listener that has left, and to no other one', async () => {
    const left: string[] = [];
    const stayed: string[] = [];
    const leave = await bus.subscribe('a', (message) => left.push(message));
    await bus.subscribe('a', (message) => stayed.push(message));
    await leave();
    bus.publish('a', 'x');
    await until(() => stayed.length === 1, { what: 'the message arrives' });
    expect(left).toEqual([]);
  });

  it('ends one of two subscriptions of the same function', async () => {
    let calls = 0;
    const listener = () => {
      calls++;
    };
    const leave = await bus.subscribe('a', listener);
    await bus.subscribe('a', listener);
    await leave();
    bus.publish('a', 'x');
    await settled('a');
    // Once for "x" and once for the end that `settled` publishes.
    expect(calls).toBe(2);
  });

  it('lets a listener leave and subscribe while it is being called', async () => {
    const seen: string[] = [];
    const leave = await bus.subscribe('a', (message) => {
      seen.push(`old ${message}`);
      void leave();
      void bus.subscribe('a', (later) => seen.push(`new ${later}`));
    });
    bus.publish('a', '1');
    await until(() => seen.length === 1, { what: 'the first arrives' });
    await settled('a');
    bus.publish('a', '2');
    await until(() => seen.includes('new 2'), { what: 'the second arrives' });
    expect(seen).not.toContain('old 2');
  });

  it('accepts a message without listeners', async () => {
    bus.publish('nobody', 'x');
    await settled('a');
    expect(bus.lost).toBe(0);
  });

  it('delivers nothing and takes everything after it was closed', async () => {
    const seen: string[] = [];
    await bus.subscribe('a', (message) => seen.push(message));
    await bus.close();
    expect(bus.isConnected).toBe(false);
    expect(() => bus.publish('a', 'x')).not.toThrow();
    const leave = await bus.subscribe('a', (message) => seen.push(message));
    await leave();
    await new Promise((resolve) => setImmediate(resolve));
    expect(seen).toEqual([]);
  });
});

describe('the bus over Redis', () => {
  let redis: TestRedis;
  let publisher: Bus;
  let listener: Bus;

  beforeEach(async () => {
    redis = await testRedis();
    publisher = redisBus({ url: redis.url, logger: silentLogger });
    listener = redisBus({ url: redis.url, logger: silentLogger });
    await until(() => publisher.isConnected && listener.isConnected, { what: 'both connect' });
  });
  afterEach(async () => {
    await Promise.all([publisher.close(), listener.close()]);
    await redis.stop();
  });

  it('carries messages from one process to another', async () => {
    const seen: string[] = [];
    await listener.subscribe('a', (message) => seen.push(message));
    publisher.publish('a', 'x');
    await until(() => seen.length === 1, { what: 'the message arrives' });
  });

  it('fires onInterrupted after a restart of Redis, when messages arrive again and not before', async () => {
    const seen: string[] = [];
    await listener.subscribe('a', (message) => seen.push(message));
    // Asked of Redis itself at the moment of the call: how many connections get a message now.
    const receivers: number[] = [];
    const asking = new Redis(redis.url, { lazyConnect: true });
    listener.onInterrupted(() => {
      void asking.publish('a', 'asked').then((count) => receivers.push(count));
    });
    await redis.stop();
    await until(() => !listener.isConnected, { what: 'the loss is noticed' });
    await redis.restart();
    await until(() => receivers.length > 0 && seen.length > 0, { what: 'the interruption is told' });
    asking.disconnect();
    expect(receivers).toEqual([1]);
    expect(seen).toEqual(['asked']);
  });

  it('takes messages while Redis is down, counts them as lost, and does not deliver them later', async () => {
    const seen: string[] = [];
    await listener.subscribe('a', (message) => seen.push(message));
    await redis.stop();
    await until(() => !publisher.isConnected && !listener.isConnected, { what: 'the loss is noticed' });
    for (let i = 0; i < 3; i++) publisher.publish('a', 'lost');
    await until(() => publisher.lost === 3, { what: 'the loss is counted' });
    await redis.restart();
    await until(() => publisher.isConnected && listener.isConnected, { what: 'both are back' });
    publisher.publish('a', 'after');
    await until(() => seen.length > 0, { what: 'messages arrive again' });
    expect(seen).toEqual(['after']);
  });

  it('does not wait for a Redis that is down at a subscription, which takes effect once it is back', async () => {
    await redis.stop();
    await until(() => !listener.isConnected, { what: 'the loss is noticed' });
    let interruptions = 0;
    listener.onInterrupted(() => {
      interruptions++;
    });
    const seen: string[] = [];
    // It would wait for ever if it waited for Redis.
    await listener.subscribe('a', (message) => seen.push(message));
    await redis.restart();
    await until(() => interruptions === 1 && publisher.isConnected, { what: 'the reconnect is told' });
    publisher.publish('a', 'x');
    await until(() => seen.length === 1, { what: 'the message arrives' });
  });

  it('counts what a Redis that has stopped answering does not take in half a second', async () => {
    await redis.pause();
    publisher.publish('a', 'x');
    await until(() => publisher.lost === 1, { what: 'the publication is given up' });
    redis.resume();
  });

  it('closes while Redis is down', async () => {
    await redis.stop();
    await publisher.close();
    await listener.close();
    expect(publisher.isConnected).toBe(false);
  });
});
