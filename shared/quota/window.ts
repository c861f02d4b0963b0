/**
 * Room `shared/quota`: what the ledger counts, for whom and when: windows of time here, `counter.ts`,
 * `window-limit.ts`; `lease.ts` and `demand.ts` are about the units of one window that a sidecar holds.
 */

import { dayMs, hourMs, latestUnixMs, minuteMs, type UnixMillis } from '../model/time.ts';

export const calendarWindowNames = ['minute', 'hour', 'day', 'month'] as const;
export type CalendarWindowName = (typeof calendarWindowNames)[number];

/** `total`: one window for all time. What limits it says when it ends. */
export const windowNames = [...calendarWindowNames, 'total'] as const;
export type WindowName = (typeof windowNames)[number];

/**
 * One window, of the calendar in UTC (contract §6) or of all time. Every moment lies in exactly one window of
 * each name: a window holds its start and ends just before its end, which is the start of the next.
 */
export interface QuotaWindow {
  readonly name: WindowName;
  readonly startsAtMs: UnixMillis;
  readonly endsAtMs: UnixMillis;
}

/** Unique name of one window of one counter, for look-ups in memory. */
export const windowKey = (
  counter: string,
  { name, startsAtMs }: { readonly name: string; readonly startsAtMs: number },
): string => `${counter} ${name} ${startsAtMs}`;

/** The window of that name in which the moment lies. */
export function windowAt(name: WindowName, nowMs: UnixMillis): QuotaWindow {
  switch (name) {
    case 'minute':
      return evenWindow(name, nowMs, minuteMs);
    case 'hour':
      return evenWindow(name, nowMs, hourMs);
    case 'day':
      return evenWindow(name, nowMs, dayMs);
    case 'month':
      return monthWindow(nowMs);
    case 'total':
      return totalWindow;
  }
}

const totalWindow: QuotaWindow = { name: 'total', startsAtMs: 0 as UnixMillis, endsAtMs: latestUnixMs };

/** The current window of a limit; `endsAtMs`: when a `total` ends, null for a window of the calendar. */
export const currentWindow = (
  { window, endsAtMs }: { readonly window: WindowName; readonly endsAtMs: UnixMillis | null },
  nowMs: UnixMillis,
): QuotaWindow => (endsAtMs === null ? windowAt(window, nowMs) : { ...windowAt(window, nowMs), endsAtMs });

/**
 * Unix time knows no leap seconds, so minutes, hours and days are multiples of their length, counted from
 * 1970.
 */
function evenWindow(name: WindowName, nowMs: UnixMillis, lengthMs: number): QuotaWindow {
  const startsAtMs = nowMs - (nowMs % lengthMs);
  return { name, startsAtMs: startsAtMs as UnixMillis, endsAtMs: (startsAtMs + lengthMs) as UnixMillis };
}

function monthWindow(nowMs: UnixMillis): QuotaWindow {
  const now = new Date(nowMs);
  const year = now.getUTCFullYear();
  const month = now.getUTCMonth();
  return {
    name: 'month',
    startsAtMs: Date.UTC(year, month) as UnixMillis,
    // Month 12 is the next January.
    endsAtMs: Date.UTC(year, month + 1) as UnixMillis,
  };
}
