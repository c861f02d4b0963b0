import { setImmediate as nextTurn } from 'node:timers/promises';

/**
 * Tells the control plane what is applied: one call under way, and one more after it for all that came
 * meanwhile. Each call waits for the next turn of the event loop: requests that wait come first, and what
 * else this turn applies goes with it.
 */
export interface Acknowledger {
  soon(): void;
}

/**
 * `send` reads what is applied when it is called. An acknowledgement that fails is not repeated: the next
 * pull carries the same, and whatever ails the connection shows there.
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
