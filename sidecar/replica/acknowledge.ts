import { setImmediate as nextTurn } from 'node:timers/promises';

/**
 * Acknowledges the applied position: one call in flight, and one after it for all positions since. Each call
 * waits for the next turn of the event loop, so that waiting requests come first and one call covers the
 * whole turn.
 */
export interface Acknowledger {
  soon(): void;
}

/**
 * `send` reads the position when it is called. A failed acknowledgement is not retried: the next pull carries
 * the same position and reports the trouble.
 */
export function makeAcknowledger(send: () => Promise<void>): Acknowledger {
  let isUnderWay = false;
  let isWanted = false;
  const run = async () => {
    isUnderWay = true;
    while (isWanted) {
      await nextTurn();
      isWanted = false;
      await send().catch(() => undefined);
    }
    isUnderWay = false;
  };
  return {
    soon: () => {
      isWanted = true;
      if (!isUnderWay) void run();
    },
  };
}
