import type { CallOptions } from '../../../clients/node/src/call-options.ts';
import { deadlineOf } from '../../../clients/node/src/transport.ts';

/**
 * The promise of a call, settled once: by its answer, by its deadline, or by the signal of its caller. What
 * comes later is dropped.
 */
export class Pending<Value> {
  /** Settled or given up: nothing more is taken for it. */
  isAborted = false;
  readonly #resolve: (value: Value) => void;
  readonly #reject: (reason: unknown) => void;
  readonly #onSettled: () => void;
  #watch: Watch | null = null;

  /** `onSettled`: called once, with either. */
  constructor(resolve: (value: Value) => void, reject: (reason: unknown) => void, onSettled: () => void) {
    this.#resolve = resolve;
    this.#reject = reject;
    this.#onSettled = onSettled;
  }

  /**
   * `late`: what it resolves to at the deadline, if it has one. Throws the reason of a signal that is aborted
   * already, and TypeError for a deadline that is none.
   */
  watch({ signal, deadlineMs }: CallOptions, late: () => Value): void {
    if (signal === undefined && deadlineMs === undefined) return;
    signal?.throwIfAborted();
    const onAbort = (): void => this.reject(signal?.reason);
    const timer =
      deadlineMs === undefined ? undefined : setTimeout(() => this.settle(late()), deadlineOf(deadlineMs));
    signal?.addEventListener('abort', onAbort, { once: true });
    this.#watch = { timer, end: () => signal?.removeEventListener('abort', onAbort) };
  }

  settle(outcome: Value | Error): void {
    if (this.isAborted) return;
    if (outcome instanceof Error) this.reject(outcome);
    else {
      this.#end();
      this.#resolve(outcome);
    }
  }

  /** With whatever the program has thrown or aborted with. */
  reject(reason: unknown): void {
    if (this.isAborted) return;
    this.#end();
    this.#reject(reason);
  }

  #end(): void {
    this.isAborted = true;
    if (this.#watch !== null) {
      clearTimeout(this.#watch.timer);
      this.#watch.end();
    }
    this.#onSettled();
  }
}

interface Watch {
  readonly timer: NodeJS.Timeout | undefined;
  readonly end: () => void;
}
