import { latestUnixMs } from '../model/time.ts';

/**
 * A header of every call of a sidecar that knows it: by how much its clock is ahead of the control plane's,
 * in whole milliseconds. The sidecar measures it, because it alone sees whole round trips.
 */
export const clockOffsetHeader = 'x-agent-trust-clock-offset-ms';

export const renderClockOffset = (offsetMs: number): string => String(Math.round(offsetMs));

/** Null: the sidecar does not say. */
export function parseClockOffset(text: string | readonly string[] | undefined): number | null {
  const offsetMs = typeof text === 'string' && /^-?\d{1,15}$/.test(text) ? Number(text) : null;
  return offsetMs !== null && Math.abs(offsetMs) <= latestUnixMs ? offsetMs : null;
}
