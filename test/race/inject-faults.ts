import { setTimeout as pause } from 'node:timers/promises';
import { must, unreachable } from '../../shared/errors/assert.ts';
import { until } from '../support/base/until.ts';
import type { Running } from '../support/programs/installation.ts';
import type { Fault } from './faults.ts';
import { allSidecars, startMsMax, type World } from './world.ts';

/**
 * Brings the faults about, each at its time, and resolves when the last is over and everything runs again.
 * What is down already, or on its way up, is left alone: the fault is said to be left out.
 */
export async function injectFaults(
  world: World,
  faults: readonly Fault[],
  say: (line: string) => void,
): Promise<void> {
  const startedAtMs = performance.now();
  const busy = new Set<string>();
  await Promise.all(
    faults.map(async (fault) => {
      await pause(Math.max(0, fault.atMs - (performance.now() - startedAtMs)));
      const { name, work } = bringAbout(world, fault);
      const at = `${((performance.now() - startedAtMs) / 1_000).toFixed(1).padStart(6)} s`;
      if (busy.has(name)) {
        say(`${at}  ${fault.kind}: left out, ${name} is not up`);
        return;
      }
      say(
        `${at}  ${fault.kind}${name.includes(' ') ? ` (${name})` : ''}, for ${(fault.forMs / 1_000).toFixed(1)} s`,
      );
      busy.add(name);
      await work();
      busy.delete(name);
    }),
  );
}

interface Work {
  /** Of what is down meanwhile. */
  readonly name: string;
  readonly work: () => Promise<void>;
}

function bringAbout(world: World, { kind, target, forMs }: Fault): Work {
  const sidecars = allSidecars(world);
  const sidecar = target % sidecars.length;
  const controlPlane = target % world.controlPlanes.length;
  const ofSidecar = (work: (running: Running) => Promise<void>): Work => ({
    name: `sidecar ${sidecar + 1}`,
    work: () => work(must(sidecars[sidecar], 'there is one')),
  });
  const ofControlPlane = (work: (running: Running) => Promise<void>): Work => ({
    name: `control plane ${controlPlane + 1}`,
    work: () => work(must(world.controlPlanes[controlPlane], 'there is one')),
  });
  switch (kind) {
    case 'kill -9 a sidecar':
      return ofSidecar((running) => endFor(running, 'SIGKILL', forMs));
    case 'stop a sidecar':
      return ofSidecar((running) => endFor(running, 'SIGTERM', forMs));
    case 'pause a sidecar':
      return ofSidecar((running) => pauseFor(running, forMs));
    case 'kill -9 a control plane':
      return ofControlPlane((running) => endFor(running, 'SIGKILL', forMs));
    case 'pause a control plane':
      return ofControlPlane((running) => pauseFor(running, forMs));
    case 'crash PostgreSQL':
      return { name: 'PostgreSQL', work: () => crash(world) };
    case 'restart PostgreSQL':
      return {
        name: 'PostgreSQL',
        work: async () => {
          await world.database.stopServer();
          await pause(forMs);
          await world.database.startServer();
        },
      };
    case 'FLUSHALL':
      return { name: 'Redis', work: () => world.redis.flush() };
    case 'restart Redis':
      return { name: 'Redis', work: () => world.redis.restart() };
    case 'cut off Redis':
      return {
        name: 'Redis',
        work: async () => {
          world.redisLink.cut();
          await pause(forMs);
          world.redisLink.restore();
        },
      };
    default:
      return unreachable(kind);
  }
}

async function endFor(running: Running, signal: NodeJS.Signals, forMs: number): Promise<void> {
  await running.stop(signal);
  await pause(forMs);
  await supervised(running);
}

/** Starts it again where it gives up, as what runs it would: a database may take longer than it waits. */
async function supervised(running: Running): Promise<void> {
  const start = () =>
    running.start().then(
      () => true,
      (error: unknown) => {
        if (running.program.isRunning) throw error;
        return false;
      },
    );
  await until(start, { what: 'a program that starts while its database is away', timeoutMs: startMsMax });
}

/**
 * A machine that stands still: its clocks go on, and what it knew of its leases has aged when it comes back.
 */
async function pauseFor(running: Running, forMs: number): Promise<void> {
  const { pid } = running.program;
  process.kill(pid, 'SIGSTOP');
  await pause(forMs);
  process.kill(pid, 'SIGCONT');
}

/**
 * One of its sessions dies, and with it the server ends all others, because the memory that they share may be
 * damaged, and recovers.
 */
async function crash({ sql }: World): Promise<void> {
  let pid = 0;
  // The pool may still have a connection that died with the server the last time.
  const isServed = () =>
    sql<{ pid: number }[]>`SELECT pg_backend_pid() AS pid`.then(
      ([session]) => {
        pid = must(session, 'a session has an id').pid;
        return true;
      },
      () => false,
    );
  await until(isServed, { what: 'PostgreSQL', timeoutMs: startMsMax });
  process.kill(pid, 'SIGKILL');
  await until(isServed, { what: 'PostgreSQL again', timeoutMs: startMsMax });
}
