import type { TurnBudget, Turns, Worker } from '../../../sidecar/intake/turns.ts';

/** Has all the time of the turns that there are, until it is over. */
export function keepBusy(turns: Turns): { isOver: boolean } {
  const busy = {
    isOver: false,
    isQueued: false,
    step: (budget: TurnBudget): boolean => {
      budget.checks = 0;
      return !busy.isOver;
    },
  } satisfies Worker & { isOver: boolean };
  turns.wants(busy);
  return busy;
}
