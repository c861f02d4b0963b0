import { limits } from '../../shared/model/limits.ts';
import type { Clock } from '../../shared/runtime/clock.ts';

/**
 * Whether the control plane answers, as all channels to it have found together: pulls, acknowledgements,
 * batches of records, lease calls and settlements. Each channel repeats what failed after a pause that grows;
 * the first answer on any of them, after a call of any of them had none, ends the pauses of all. So nobody
 * waits out a long pause in front of a control plane that is back. It ends them at most once in
 * `limits.leaseRetryLastMs`: one channel that keeps failing beside others that work is not hurried by each of
 * their answers.
 *
 * It is known to be away when a call could not connect, or when two calls, one begun after the other had
 * failed, got no answer; and no more after any answer. One broken connection says nothing: whoever is between
 * may have another replica. Nor does a call that was sent before the last answer.
 */
export class Reach {
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #pauses: (() => void)[] = [];
  /** A call has failed since the pauses were ended last. */
  #hasFailed = false;
  /** Calls in a row, each begun after the one before had failed. */
  #failures = 0;
  #failedAtMs = Number.NEGATIVE_INFINITY;
  #answeredAtMs = Number.NEGATIVE_INFINITY;
  #endedAtMs = Number.NEGATIVE_INFINITY;

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock;
  }

  /**
   * `endPause`: ends the pause under way of a channel, and does nothing where there is none. For as long as
   * this lives.
   */
  onBack(endPause: () => void): void {
    this.#pauses.push(endPause);
  }

  /** Known to be unreachable: what needs it is refused at once. */
  get isAway(): boolean {
    return this.#failures >= awayAfter;
  }

  /**
   * A call got no answer, or one that says that it could not be served. `canConnect` false: the port is
   * closed there.
   */
  noteAway({ sentAtMs, canConnect }: { readonly sentAtMs: number; readonly canConnect: boolean }): void {
    this.#hasFailed = true;
    // It has answered since: the failure of this call is outdated.
    if (sentAtMs < this.#answeredAtMs) return;
    if (!canConnect) this.#failures = awayAfter;
    else if (sentAtMs >= this.#failedAtMs) this.#failures++;
    this.#failedAtMs = this.#clock.monotonic();
  }

  /** A call has been answered by the control plane itself. */
  noteAnswer(): void {
    const nowMs = this.#clock.monotonic();
    this.#failures = 0;
    this.#answeredAtMs = nowMs;
    if (!this.#hasFailed) return;
    if (nowMs - this.#endedAtMs < limits.leaseRetryLastMs) return;
    this.#hasFailed = false;
    this.#endedAtMs = nowMs;
    for (const endPause of this.#pauses) endPause();
  }
}

const awayAfter = 2;
