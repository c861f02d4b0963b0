import { Redis } from 'ioredis';
import type { Database } from '../../control-plane/base/database.ts';
import { connect } from '../../control-plane/storage/connect.ts';
import type { Chance } from '../support/base/chance.ts';
import { testDatabaseServer } from '../support/database/postgres.ts';
import { linkTo } from '../support/peers/link.ts';
import type { TestRedis } from '../support/peers/redis.ts';
import { type Installation, installation, type Running } from '../support/programs/installation.ts';
import type { Programs } from '../support/programs/programs.ts';
import { type NoisyLink, noisyLink } from './noisy-link.ts';

/**
 * The real programs on a real PostgreSQL and a real Redis of their own, with links between them that can be
 * made worse.
 */
export interface World {
  readonly installation: Installation;
  readonly controlPlanes: readonly Running[];
  readonly sidecars: readonly Running[];
  /** Of another account, whose sidecar takes passports of ours. */
  readonly foreign: { readonly sidecar: Running; readonly key: string };
  readonly links: readonly NoisyLink[];
  readonly redis: TestRedis;
  readonly redisLink: Awaited<ReturnType<typeof linkTo>>;
  readonly database: Awaited<ReturnType<typeof testDatabaseServer>>;
  /** For looking at the database, not for changing it. It survives a restart of the server. */
  readonly sql: Database;
  /** Lines in which a program says that something of its own is wrong, restarts included. */
  faultsOfOurs(): string[];
  close(): Promise<void>;
}

/** Bounds a start that hangs, not one that is slow. */
export const startMsMax = 300_000;

const sidecarCount = 4;
const controlPlaneCount = 2;

export async function startWorld(programs: Programs, redis: TestRedis, chance: Chance): Promise<World> {
  const stops: (() => Promise<unknown>)[] = [];
  const close = async (): Promise<void> => {
    for (const stop of stops.splice(0).reverse()) await stop();
  };
  try {
    const database = await testDatabaseServer();
    stops.push(() => database.stop());
    const redisLink = await linkTo(Number(new URL(redis.url).port));
    stops.push(() => redisLink.close());
    const redisUrl = redisLink.origin.replace('http:', 'redis:');
    const started = recorded(programs);
    const reached = { databaseUrl: database.url, redisUrl };
    const world = await installation(started.programs, { ...reached, readyMsMax: startMsMax });
    stops.push(() => world.close());

    const controlPlanes: Running[] = [];
    while (controlPlanes.length < controlPlaneCount) controlPlanes.push(await world.startControlPlane());
    const origins = controlPlanes.map(({ origin }) => origin);
    const links: NoisyLink[] = [];
    const sidecars: Running[] = [];
    while (sidecars.length < sidecarCount) {
      const link = await noisyLink(origins, chance.branch(`link ${links.length}`));
      stops.push(() => link.close());
      links.push(link);
      sidecars.push(await world.startSidecar({ CONTROL_PLANE_URL: link.origin }));
    }
    const link = await noisyLink(origins, chance.branch('foreign link'));
    stops.push(() => link.close());
    links.push(link);
    const foreign = await startForeign(world, link.origin);
    // One: a connection that died with the server is noticed by the next to ask, and not rounds later. It may
    // be silent for long: what is read is much, on a machine that is busy with a race.
    const sql = connect({ url: database.url, connectionsMax: 1, silenceMsMax: 60_000 });
    stops.push(() => sql.end({ timeout: 1 }));
    return {
      installation: world,
      controlPlanes,
      sidecars,
      foreign,
      links,
      redis,
      redisLink,
      database,
      sql,
      faultsOfOurs: started.faultsOfOurs,
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

async function startForeign(world: Installation, controlPlane: string): Promise<World['foreign']> {
  const made = await world.api('POST', '/accounts', { name: 'Foreign shop', plan: 'enterprise' });
  if (made.status !== 201) throw new Error(`account: ${JSON.stringify(made.body)}`);
  const { key } = made.body.api_key;
  const sidecar = await world.startSidecar({ CONTROL_PLANE_URL: controlPlane, SIDECAR_API_KEY: key });
  return { sidecar, key };
}

/** Ours and those of others: all of them may fail. */
export const allSidecars = ({
  sidecars,
  foreign,
}: Pick<World, 'sidecars' | 'foreign'>): readonly Running[] => [...sidecars, foreign.sidecar];

/** Programs whose output is read when all is over, that of killed ones too. */
export function recorded(programs: Programs) {
  const all: { readonly name: string; output(): string }[] = [];
  return {
    programs: {
      start: (args: readonly string[], env: Readonly<Record<string, string>>) => {
        const program = programs.start(args, env);
        all.push({ name: args.join(' '), output: () => program.output() });
        return program;
      },
    },
    /** Of each program what it wrote last. */
    lastLines: (count: number) =>
      all.flatMap(({ name, output }) =>
        output()
          .trimEnd()
          .split('\n')
          .slice(-count)
          .map((line) => `${name}: ${line}`),
      ),
    faultsOfOurs: () =>
      all.flatMap(({ name, output }) =>
        output()
          .split('\n')
          .filter((line) => ourFault.test(line))
          .map((line) => `${name}: ${line}`),
      ),
  };
}

/**
 * Errors that no weather explains: a broken invariant, a request that failed by our own fault, a decision
 * that the ledger refuses.
 */
const ourFault =
  /AssertionError|a request failed"|internal error|could not be put into effect|Invariant|uncaught/i;

/**
 * Sends some of what passes over Redis once more, at once or a little later: what subscribers hear may come
 * twice, and after what was said later. What does not pass, because Redis is away, is what is dropped.
 */
export function startEcho(
  redisUrl: string,
  chance: Chance,
): { readonly echoed: number; stop(): Promise<void> } {
  const options = { maxRetriesPerRequest: 0, enableOfflineQueue: false, retryStrategy: () => 100 } as const;
  const listening = new Redis(redisUrl, options);
  const speaking = new Redis(redisUrl, options);
  const own = new Set<string>();
  let echoed = 0;
  const quiet = () => undefined;
  listening.on('error', quiet);
  speaking.on('error', quiet);
  listening.on('ready', () => void listening.psubscribe('*').catch(quiet));
  listening.on('pmessage', (_pattern, channel, message) => {
    const name = `${channel} ${message}`;
    if (own.delete(name) || !chance.happens(0.3)) return;
    setTimeout(() => {
      own.add(name);
      echoed++;
      speaking.publish(channel, message).catch(quiet);
    }, chance.below(1_500)).unref();
  });
  return {
    get echoed() {
      return echoed;
    },
    stop: async () => {
      listening.disconnect();
      speaking.disconnect();
    },
  };
}
