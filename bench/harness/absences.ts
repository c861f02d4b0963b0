import { openSync, readdirSync, readFileSync, readSync } from 'node:fs';

/** Longer than it takes a load generator to send a request or to read an answer, many times over. */
const absenceMsMin = 0.3;

interface Absence {
  readonly fromMs: number;
  readonly untilMs: number;
}

/**
 * Absences of a process that never sleeps: another program had its core, or it collected garbage. It reads
 * the clock before each step; a gap between two readings is an absence. Neither the amount of work nor
 * waiting for answers makes a gap.
 */
export class Absences {
  #lookedMs: number;
  readonly #absences: Absence[] = [];

  constructor(nowMs: number) {
    this.#lookedMs = nowMs;
  }

  look(nowMs: number): void {
    if (nowMs - this.#lookedMs > absenceMsMin)
      this.#absences.push({ fromMs: this.#lookedMs, untilMs: nowMs });
    this.#lookedMs = nowMs;
  }

  /** How much of the time from then to the last look it was away. */
  sinceMs(fromMs: number): number {
    let sum = 0;
    for (let i = this.#absences.length - 1; i >= 0; i -= 1) {
      const absence = this.#absences[i];
      if (absence === undefined || absence.untilMs <= fromMs) break;
      sum += absence.untilMs - Math.max(absence.fromMs, fromMs);
    }
    return sum;
  }
}

/** Share of all requests that were due or under way during an absence. */
export function absentShare(
  rounds: readonly { readonly times: readonly number[]; readonly watched: readonly number[] }[],
): number {
  const sum = (which: 'times' | 'watched') =>
    rounds.flatMap((round) => round[which]).reduce((a, b) => a + b, 0);
  return 1 - sum('watched') / sum('times');
}

/** Waking up takes some microseconds; a longer wait means another program on the core. */
const waitMsMin = 0.1;
/** A look costs the generator's core some microseconds. */
const lookEveryMs = 0.2;

/** How long a thread was ready and waited for its core, switches not counted. */
export class CoreWaits {
  sumMs = 0;
  readonly #read: () => number;
  #lookedMs = Number.NEGATIVE_INFINITY;
  #waitedMs: number;

  /** `read` returns the milliseconds it has waited since it was started. */
  constructor(read: () => number) {
    this.#read = read;
    this.#waitedMs = read();
  }

  /** Call it often: the interval between calls is the resolution. */
  look(nowMs: number): void {
    if (nowMs - this.#lookedMs < lookEveryMs) return;
    this.#lookedMs = nowMs;
    const waitedMs = this.#read();
    if (waitedMs - this.#waitedMs > waitMsMin) this.sumMs += waitedMs - this.#waitedMs;
    this.#waitedMs = waitedMs;
  }
}

/** Of the main thread of a process, in milliseconds since it was started. */
export function waitedMsOf(pid: string): () => number {
  const file = openSync(schedstat(pid, pid), 'r');
  const bytes = Buffer.alloc(100);
  return () => waitedMs(bytes.toString('latin1', 0, readSync(file, bytes, 0, bytes.length, 0)));
}

/** How long all other threads of a process have run, in milliseconds since they were started. */
export function othersRanMsOf(pid: string): number {
  const others = readdirSync(`/proc/${pid}/task`).filter((thread) => thread !== pid);
  return others.reduce((sum, thread) => sum + ranMs(readFileSync(schedstat(pid, thread), 'latin1')), 0);
}

const schedstat = (pid: string, thread: string): string => `/proc/${pid}/task/${thread}/schedstat`;

/** Linux, sched-stats.rst: first and second field of a thread, in nanoseconds. */
const ranMs = (line: string): number => Number(line.split(' ')[0]) / 1e6;
const waitedMs = (line: string): number => Number(line.split(' ')[1]) / 1e6;
