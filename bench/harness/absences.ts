import { openSync, readdirSync, readFileSync, readSync } from 'node:fs';

/** Longer than it takes a load generator to send a request or to read an answer, many times over. */
const absenceMsMin = 0.3;

interface Absence {
  readonly fromMs: number;
  readonly untilMs: number;
}

/**
 * When a process that never sleeps was away: another program had its core, or it collected its garbage. It
 * looks at the clock before everything that it does, and was away between two looks that are too far apart.
 * How much it has to do at a time makes no difference, and neither does what it waits for.
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

/** Of all requests, those that were due or under way while the generator was away. */
export function absentShare(
  rounds: readonly { readonly times: readonly number[]; readonly watched: readonly number[] }[],
): number {
  const sum = (which: 'times' | 'watched') =>
    rounds.flatMap((round) => round[which]).reduce((a, b) => a + b, 0);
  return 1 - sum('watched') / sum('times');
}

/** A thread that is woken up waits for some microseconds each time; this is another program's doing. */
const waitMsMin = 0.1;
/** A look costs some microseconds of the core of the one who looks. */
const lookEveryMs = 0.2;

/** How long a thread was ready to run and waited for its core, in waits that are more than a switch. */
export class CoreWaits {
  sumMs = 0;
  readonly #read: () => number;
  #lookedMs = Number.NEGATIVE_INFINITY;
  #waitedMs: number;

  /** `read` tells how many milliseconds it has waited since it was started. */
  constructor(read: () => number) {
    this.#read = read;
    this.#waitedMs = read();
  }

  /** To be called again and again: short waits are told from long ones by how often one looks. */
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

/** What Linux has of a thread (sched-stats.rst of its documentation), first and second: in nanoseconds. */
const ranMs = (line: string): number => Number(line.split(' ')[0]) / 1e6;
const waitedMs = (line: string): number => Number(line.split(' ')[1]) / 1e6;
