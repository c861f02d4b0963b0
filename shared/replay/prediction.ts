import type { Outcome } from '../model/decision.ts';
import type { PredictedCounts } from '../model/gate.ts';
import { dayMs, hourMs, minuteMs, type UnixMillis } from '../model/time.ts';

/** A shadow of at most a day is compared by the minute. */
const byMinuteMsMax = dayMs;

/** Counts what a shadow said by steps back from its promotion, at most 1,440 of them. */
export class Prediction {
  readonly #promotedAtMs: UnixMillis;
  readonly #stepMs: number;
  readonly #steps: [number, number, number][];

  constructor(createdAtMs: UnixMillis, promotedAtMs: UnixMillis) {
    const lifeMs = promotedAtMs - createdAtMs;
    this.#promotedAtMs = promotedAtMs;
    this.#stepMs = lifeMs <= byMinuteMsMax ? minuteMs : hourMs;
    this.#steps = Array.from({ length: Math.floor(lifeMs / this.#stepMs) }, () => [0, 0, 0]);
  }

  add(atMs: UnixMillis, outcome: Outcome): void {
    const step = this.#steps[Math.floor((this.#promotedAtMs - 1 - atMs) / this.#stepMs)];
    if (step !== undefined) step[placeOf[outcome]] += 1;
  }

  counts(): PredictedCounts {
    return { step_ms: this.#stepMs, steps: this.#steps };
  }
}

const placeOf = { PERMIT: 0, BLOCK: 1, SUSPEND: 2 } as const satisfies Record<Outcome, number>;
