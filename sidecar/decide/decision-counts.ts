import type { Decision } from '../../shared/decision/facts.ts';
import { type DecisionReason, type Outcome, outcomes } from '../../shared/model/decision.ts';

export interface DecisionCount {
  readonly outcome: Outcome;
  readonly reason: DecisionReason | null;
  readonly count: number;
}

/** How many decisions came out how: a row for each outcome and reason that occurred. */
export class DecisionCounts {
  readonly #byOutcome: Readonly<Record<Outcome, Map<DecisionReason | null, { count: number }>>> = {
    PERMIT: new Map(),
    SUSPEND: new Map(),
    BLOCK: new Map(),
  };

  count({ outcome, reason }: Decision): void {
    const counts = this.#byOutcome[outcome];
    const counted = counts.get(reason);
    if (counted !== undefined) counted.count++;
    else counts.set(reason, { count: 1 });
  }

  *rows(): Iterable<DecisionCount> {
    for (const outcome of outcomes) {
      for (const [reason, { count }] of this.#byOutcome[outcome]) yield { outcome, reason, count };
    }
  }
}
