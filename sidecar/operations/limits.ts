import { minuteMs } from '../../shared/model/time.ts';

/** Bounds of this room alone, each with its reason. */
export const operationsLimits = {
  /** A sidecar on a machine whose clock is further off is not ready (contract §6). */
  clockOffsetReadyMsMax: minuteMs,
} as const;
