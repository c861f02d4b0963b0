import { limits } from '../../shared/model/limits.ts';
import type { Clock } from '../../shared/runtime/clock.ts';

/**
 * Whether the control plane answers, by the experience of all channels to it: pulls, acknowledgements,
 * batches of records, lease calls and settlements. Each channel retries with a growing pause. After a
 * failure, the first answer on any channel ends the pauses of all, so none waits for a control plane that is
 * back. This happens at most once in `limits.leaseRetryLastMs`: a channel that keeps failing is not hurried
 * by every answer on the others.
 *
 * It is known to be away when a call could not connect, or when two calls, the second started after the first
 * had failed, got no answer. Any answer ends that. One broken connection proves nothing, because a load
 * balancer may have another replica; nor does a call sent before the last answer.
 */
export class Reach {
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #pauses: (() => void)[] = [];
  /** A call has failed since the pauses last ended. */
  #hasFailed = false;
  /** Failed calls in a row, each started after the failure of the one before. */
  #failures = 0;
  #failedAtMs = Number.NEGATIVE_INFINITY;
  #answeredAtMs = Number.NEGATIVE_INFINITY;
  #endedAtMs = Number.NEGATIVE_INFINITY;

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock;
  }

  /** `endPause`: ends the current pause of a channel, if any. Registered for good. */
  onBack(endPause: () => void): void {
    this.#pauses.push(endPause);
  }

  /** Known to be unreachable: requests that need it are refused at once. */
  get isAway(): boolean {
    return this.#failures >= awayAfter;
  }

  /**
   * A call got no answer, or one that says it could not be served. `canConnect` false: connection refused.
   */
  noteAway({ sentAtMs, canConnect }: { readonly sentAtMs: number; readonly canConnect: boolean }): void {
    this.#hasFailed = true;
    // It has answered since this call was sent.
    if (sentAtMs < this.#answeredAtMs) return;
    if (!canConnect) this.#failures = awayAfter;
    else if (sentAtMs >= this.#failedAtMs) this.#failures++;
    this.#failedAtMs = this.#clock.monotonic();
  }

  /** The control plane itself answered a call. */
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
