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
