import { tmpdir } from 'node:os';
import { Redis } from 'ioredis';
import { type GuardedProcess, startGuarded } from '../../../control-plane/storage/guarded-process.ts';
import { freePort } from '../base/free-port.ts';
import { until } from '../base/until.ts';
import { sharedService } from '../run/shared-services.ts';

export interface TestRedis {
  readonly url: string;
  /**
   * Ends the server: connections break and new ones are refused. Also the clean-up; doing it twice changes
   * nothing.
   */
  stop(): Promise<void>;
  /** Starts it again on the same port, empty: what it knew is gone. */
  restart(): Promise<void>;
  /** Removes all keys. */
  flush(): Promise<void>;
  /** The server stops answering while its connections stay open, until `resume`. */
  pause(): Promise<void>;
  resume(): void;
}

const stopMsMax = 5_000;
const portTries = 5;

/**
 * A real Redis of this caller's own, on a free port, without persistence; it ends with the test process. With
 * REDIS_URL set that one is used instead, shared with whoever else uses it: there it cannot be stopped, and a
 * test that asks for it fails with a sentence.
 */
export async function testRedis(): Promise<TestRedis> {
  const given = process.env['REDIS_URL'];
  return given === undefined || given === ''
    ? ownRedis(await sharedService('redis-server'))
    : givenRedis(given);
}

/** Of this caller's own in any case, with further arguments of redis-server. */
export const testRedisWith = async (args: readonly string[]): Promise<TestRedis> =>
  ownRedis(await sharedService('redis-server'), args);

function givenRedis(url: string): TestRedis {
  const refuse = (what: string) => (): never => {
    throw new Error(`This test must ${what} a Redis of its own: run it without REDIS_URL.`);
  };
  return {
    url,
    stop: async () => undefined,
    restart: refuse('restart'),
    flush: refuse('flush'),
    pause: refuse('pause'),
    resume: refuse('resume'),
  };
}

/** Outside of a run of vitest: of this program. */
export async function ownRedis(command: string, args: readonly string[] = []): Promise<TestRedis> {
  let { server, port } = await startOnFreePort(command, args);
  const url = `redis://127.0.0.1:${port}`;
  let pausedPid: number | null = null;
  const resume = (): void => {
    if (pausedPid !== null) process.kill(pausedPid, 'SIGCONT');
    pausedPid = null;
  };
  return {
    url,
    stop: async () => {
      resume();
      await server.stop({ timeoutMs: stopMsMax });
    },
    restart: async () => {
      resume();
      await server.stop({ timeoutMs: stopMsMax });
      const again = await start(command, port, args);
      if (again === null) throw new Error(`redis-server does not start again on port ${port}`);
      server = again;
    },
    flush: () => ask(url, (redis) => redis.flushall()).then(() => undefined),
    pause: async () => {
      const info = await ask(url, (redis) => redis.info('server'));
      pausedPid = Number(/process_id:(\d+)/.exec(info)?.[1]);
      process.kill(pausedPid, 'SIGSTOP');
    },
    resume,
  };
}

async function startOnFreePort(
  command: string,
  args: readonly string[],
): Promise<{ server: GuardedProcess; port: number }> {
  for (let i = 0; i < portTries; i++) {
    const port = await freePort();
    const server = await start(command, port, args);
    if (server !== null) return { server, port };
  }
  throw new Error(`${command} did not start on any of ${portTries} free ports`);
}

/** Null: it ended at once, because somebody else was faster to take the port. */
async function start(command: string, port: number, args: readonly string[]): Promise<GuardedProcess | null> {
  const server = startGuarded({
    command,
    args: [
      ...['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no'],
      ...['--dir', tmpdir(), ...args],
    ],
    env: {},
    user: null,
  });
  const isUp = (): Promise<boolean> =>
    ask(`redis://127.0.0.1:${port}`, (redis) => redis.ping()).then(
      () => true,
      () => false,
    );
  await until(async () => !server.isRunning || (await isUp()), { what: `redis-server on port ${port}` });
  return server.isRunning ? server : null;
}

async function ask<T>(url: string, question: (redis: Redis) => Promise<T>): Promise<T> {
  const redis = new Redis(url, { lazyConnect: true, retryStrategy: () => null, commandTimeout: 20_000 });
  redis.on('error', () => undefined);
  try {
    await redis.connect();
    return await question(redis);
  } finally {
    redis.disconnect();
  }
}
