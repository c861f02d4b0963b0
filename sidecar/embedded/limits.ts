import { secondMs } from '../../shared/model/time.ts';

/** Bounds of this room alone, each with its reason. */
export const embeddedLimits = {
  /**
   * Checks decided in one turn of the event loop, which is the embedding program's too: some 10 ms at most.
   * The spool has room for the records of five times as many.
   */
  decisionsPerTurnMax: 1_024,
  /** Checks that wait for one of the next turns: about 50 ms of work. More are UNAVAILABLE `overloaded`. */
  checksWaitingMax: 5_000,
  /**
   * A state is there after two calls to the control plane; a program that starts without it waits this long.
   */
  readyWaitMsDefault: 5 * secondMs,
  readyWaitMsMax: 60 * secondMs,
} as const;
