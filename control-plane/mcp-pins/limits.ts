import { minuteMs } from '../../shared/model/time.ts';

/** Bounds of this room alone, each with its reason. */
export const mcpPinsLimits = {
  /** Servers behind one gate. A guard that reports names it makes up fills its own gate alone. */
  upstreamsPerGateMax: 16,
  /** Definitions with which a condition is compared, of at most 32 KiB each. Most servers have dozens. */
  toolsReadMax: 256,
  /**
   * From the first report of an upstream until new tools wait for a person, even if its list never ends: a
   * server that gives out page after page must not stay at its first sight for ever.
   */
  firstSightMsMax: 10 * minuteMs,
} as const;
