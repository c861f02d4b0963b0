import { latestUnixMs } from '../../model/time.ts';

/**
 * Header of each call of a sidecar: how far its clock is ahead of the control plane's, in whole milliseconds.
 * Sent once the sidecar, which alone sees whole round trips, has measured it.
 */
export const clockOffsetHeader = 'x-agent-trust-clock-offset-ms';

export const renderClockOffset = (offsetMs: number): string => String(Math.round(offsetMs));

/** Null: not stated. */
export function parseClockOffset(text: string | readonly string[] | undefined): number | null {
  const offsetMs = typeof text === 'string' && /^-?\d{1,15}$/.test(text) ? Number(text) : null;
  return offsetMs !== null && Math.abs(offsetMs) <= latestUnixMs ? offsetMs : null;
}
