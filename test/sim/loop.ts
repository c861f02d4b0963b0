import type { MonotonicMillis, UnixMillis } from '../../shared/model/time.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import type { Disk } from './disk.ts';

/** What survives a process: the clocks and the disk under it. */
export interface Machine {
  readonly name: string;
  readonly disk: Disk;
  /** Its wall clock minus the true time. */
  wallSkewMs: number;
  bootId: string;
  readonly startedAtMs: number;
}

/**
 * One process of the simulation. Everything that it has begun and not finished, timers and calls and
 * promises, ends with it: nothing calls back into a dead process.
 */
export class Process {
  readonly machine: Machine;
  readonly name: string;
  isAlive = true;
  isPaused = false;
  /** When it was paused last. */
  pausedAtMs = Number.NEGATIVE_INFINITY;
  /** When it ran again after that, or began. */
  runsSinceMs = 0;
  endedAtMs = Number.POSITIVE_INFINITY;
  /** It has heard the time of the control plane. */
  knowsTime = false;
  /** When the control plane last answered it. */
  answeredAtMs = Number.NEGATIVE_INFINITY;
  /** Of when the newest of the heads is that reached it. */
  heardAtMs = Number.NEGATIVE_INFINITY;
  /** Open files. */
  readonly files = new Map<number, unknown>();
  /** What came while it was paused. */
  deferred: Event[] = [];

  constructor(machine: Machine, name: string) {
    this.machine = machine;
    this.name = name;
  }
}

/** After a pause, Node runs timers before it reads what has arrived. */
type EventKind = 'timer' | 'io';

interface Event {
  readonly process: Process;
  readonly kind: EventKind;
  readonly run: () => void;
  atMs: number;
  order: number;
  isCancelled: boolean;
}

export interface Scheduled {
  cancel(): void;
}

/**
 * The one thread of a simulation. Time stands still while an event runs, and jumps to the next one. Promises
 * belong to the event that resolves them: the next event waits until none is left.
 */
export class Loop {
  nowMs = 0;
  /** The true time at the start. */
  readonly epochMs: number;
  /** Whose code runs. */
  current: Process | null = null;
  events = 0;
  readonly #queue: Event[] = [];
  #order = 0;

  constructor(epochMs: number) {
    this.epochMs = epochMs;
  }

  get trueMs(): number {
    return this.epochMs + this.nowMs;
  }

  schedule(process: Process, delayMs: number, kind: EventKind, run: () => void): Scheduled {
    const event: Event = {
      process,
      kind,
      run,
      atMs: this.nowMs + Math.max(0, delayMs),
      order: this.#order++,
      isCancelled: false,
    };
    this.#push(event);
    return {
      cancel: () => {
        event.isCancelled = true;
      },
    };
  }

  /** For code that a process runs outside of its events, at its start. */
  as<T>(process: Process, run: () => T): T {
    const before = this.current;
    this.current = process;
    try {
      return run();
    } finally {
      this.current = before;
    }
  }

  pause(process: Process): void {
    process.isPaused = true;
    process.pausedAtMs = this.nowMs;
  }

  resume(process: Process): void {
    process.isPaused = false;
    process.runsSinceMs = this.nowMs;
    const deferred = process.deferred;
    process.deferred = [];
    for (const kind of ['timer', 'io'] as const) {
      for (const event of deferred) {
        if (event.kind !== kind) continue;
        event.atMs = this.nowMs;
        event.order = this.#order++;
        this.#push(event);
      }
    }
  }

  /** Runs what is due until that moment, or until `isOver`, which is asked after each event. */
  async runUntil(endMs: number, isOver: () => boolean): Promise<void> {
    for (;;) {
      const event = this.#queue[0];
      if (event === undefined || event.atMs > endMs) break;
      this.#pop();
      if (event.isCancelled || !event.process.isAlive) continue;
      this.nowMs = Math.max(this.nowMs, event.atMs);
      if (event.process.isPaused) {
        event.process.deferred.push(event);
        continue;
      }
      this.events++;
      this.current = event.process;
      event.run();
      await settled();
      this.current = null;
      if (isOver()) return;
    }
    this.nowMs = Math.max(this.nowMs, endMs);
  }

  #push(event: Event): void {
    const queue = this.#queue;
    let at = queue.length;
    queue.push(event);
    while (at > 0) {
      const up = (at - 1) >> 1;
      const above = queue[up] as Event;
      if (!isBefore(event, above)) break;
      queue[at] = above;
      at = up;
    }
    queue[at] = event;
  }

  #pop(): void {
    const queue = this.#queue;
    const last = queue.pop() as Event;
    if (queue.length === 0) return;
    let at = 0;
    for (;;) {
      let next = 2 * at + 1;
      if (next >= queue.length) break;
      if (next + 1 < queue.length && isBefore(queue[next + 1] as Event, queue[next] as Event)) next++;
      if (!isBefore(queue[next] as Event, last)) break;
      queue[at] = queue[next] as Event;
      at = next;
    }
    queue[at] = last;
  }
}

const isBefore = (one: Event, other: Event): boolean =>
  one.atMs < other.atMs || (one.atMs === other.atMs && one.order < other.order);

/** The next tick comes once no promise has anything left to do, and is cheaper than a turn of the loop. */
const settled = (): Promise<void> => new Promise((resolve) => process.nextTick(resolve));

let current: Loop | null = null;

/** The simulation under way, for the edges. */
export function theLoop(): Loop {
  if (current === null) throw new Error('no simulation is under way');
  return current;
}

/** Null while the modules are loaded. */
export const aLoop = (): Loop | null => current;

export function setLoop(loop: Loop | null): void {
  current = loop;
}

export function theProcess(): Process {
  const process = theLoop().current;
  if (process === null) throw new Error('this runs outside of every process');
  return process;
}

/** The clocks of a machine, as `systemClock` reads them. */
export const clockOf = (machine: Machine): Clock => ({
  now: () => Math.floor(theLoop().trueMs + machine.wallSkewMs) as UnixMillis,
  monotonic: () => (theLoop().nowMs - machine.startedAtMs) as MonotonicMillis,
});
