import { secondMs } from '../../shared/model/time.ts';

/** Bounds of this room alone, each with its reason. */
export const embeddedLimits = {
  /**
   * A state is there after two calls to the control plane; a program that starts without it waits this long.
   */
  readyWaitMsDefault: 5 * secondMs,
  readyWaitMsMax: 60 * secondMs,
} as const;
