import { makeWakeup } from './wakeup.ts';

/** Background work until it is stopped. */
export interface Repetition {
  /** Resolves when the last round is over. */
  stop(): Promise<void>;
  /** Ends the pause, or the next one. */
  wake(): void;
}

/** Returns the pause in milliseconds; a long one checks `isStopped`. */
export type Round = (state: { readonly isStopped: boolean }) => Promise<number>;

/**
 * Runs `round`, which never throws, at once and again after each pause, one at a time, until it is stopped.
 */
export function repeat(round: Round): Repetition {
  const wakeup = makeWakeup();
  const state = { isStopped: false };
  const run = async () => {
    while (!state.isStopped) {
      const pauseMs = await round(state);
      if (!state.isStopped) await wakeup.sleep(pauseMs);
    }
  };
  const running = run();
  return {
    wake: wakeup.wake,
    stop: async () => {
      state.isStopped = true;
      wakeup.wake();
      await running;
    },
  };
}
