import { secondMs } from '../../shared/model/time.ts';

/** Bounds of this room alone, each with its reason. */
export const embeddedLimits = {
  /** A state takes two calls to the control plane; without a control plane, the start waits this long. */
  readyWaitMsDefault: 5 * secondMs,
  readyWaitMsMax: 60 * secondMs,
} as const;
