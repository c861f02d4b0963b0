import { AsyncLocalStorage } from 'node:async_hooks';

/** What a test file starts and does, as far as it is the same on every machine. */
export interface Costs {
  /** Control planes and sidecars in the process of the test. */
  services: number;
  databases: number;
  processes: number;
  /** Sent by the clients of `test/support`, not by the service itself. */
  requests: number;
  /** Calls of `until`: each waits for something real. */
  waits: number;
}
export type Cost = keyof Costs;

const none = (): Costs => ({ services: 0, databases: 0, processes: 0, requests: 0, waits: 0 });
export const costNames = Object.keys(none()) as readonly Cost[];

/** Of this worker, since they were last taken. */
let counted = none();

/** In a look that is repeated: how often one looks is a matter of the machine's speed. */
const repeated = new AsyncLocalStorage<true>();

export function countCost(cost: Cost): void {
  if (repeated.getStore() === undefined) counted[cost] += 1;
}

/** Does what was done and counted before. */
export const uncounted = <T>(work: () => T): T => repeated.run(true, work);

/** What was counted since the last call. */
export function takeCosts(): Costs {
  const taken = counted;
  counted = none();
  return taken;
}
