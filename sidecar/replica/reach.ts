import { limits } from '../../shared/model/limits.ts';
import type { Clock } from '../../shared/runtime/clock.ts';

/**
 * Whether the control plane answers, as all channels to it have found together: pulls, acknowledgements, batches of records, lease calls and
 * settlements. Each channel repeats what failed after a pause that grows; the first answer on any of them, after a call of any of them had none, ends the
 * pauses of all. So nobody waits out a long pause in front of a control plane that is back. It ends them at most once in `limits.quotaWaitMsMax`: one channel
 * that keeps failing beside others that work is not hurried by each of their answers.
 */
export class Reach {
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #pauses: (() => void)[] = [];
  #isAway = false;
  #endedAtMs = Number.NEGATIVE_INFINITY;

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock;
  }

  /** `endPause`: ends the pause under way of a channel, and does nothing where there is none. For as long as this lives. */
  onBack(endPause: () => void): void {
    this.#pauses.push(endPause);
  }

  /** A call has got no answer, or one that says that nobody could serve it. */
  noteAway(): void {
    this.#isAway = true;
  }

  /** A call has been answered by the control plane itself. */
  noteAnswer(): void {
    if (!this.#isAway) return;
    const nowMs = this.#clock.monotonic();
    if (nowMs - this.#endedAtMs < limits.quotaWaitMsMax) return;
    this.#isAway = false;
    this.#endedAtMs = nowMs;
    for (const endPause of this.#pauses) endPause();
  }
}
