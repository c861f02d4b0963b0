import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  dayMs,
  hourMs,
  latestUnixMs,
  minuteMs,
  renderTime,
  type UnixMillis,
} from '../../shared/model/time.ts';
import { type CalendarWindowName, calendarWindowNames, windowAt } from '../../shared/quota/window.ts';
import { runs } from '../support/runs.ts';

/** The year before the last one is never reached by a test, so that the window after has a date too. */
const time = fc.integer({ min: 0, max: latestUnixMs - 400 * dayMs }).map((nowMs) => nowMs as UnixMillis);
const name = fc.constantFrom(...calendarWindowNames);
const numRuns = runs({ short: 500, long: 200_000 });

/** The same from the text of the date: how much of it the moments of one window have in common. */
const sharedChars: Readonly<Record<CalendarWindowName, number>> = { month: 7, day: 10, hour: 13, minute: 16 };
const label = (window: CalendarWindowName, timeMs: number) =>
  renderTime(timeMs as UnixMillis).slice(0, sharedChars[window]);

function lengthMs(window: CalendarWindowName, startsAtMs: number): number {
  if (window !== 'month') return { minute: minuteMs, hour: hourMs, day: dayMs }[window];
  const [year = 0, month = 0] = label('month', startsAtMs).split('-').map(Number);
  const isLeap = year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
  return ([31, isLeap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month - 1] ?? 0) * dayMs;
}

describe('calendar windows', () => {
  it('hold the moment that they are named for, from its first to its last millisecond', () => {
    fc.assert(
      fc.property(name, time, (window, nowMs) => {
        const { startsAtMs, endsAtMs } = windowAt(window, nowMs);
        expect(startsAtMs <= nowMs && nowMs < endsAtMs).toBe(true);
        expect(label(window, startsAtMs)).toBe(label(window, nowMs));
        expect(label(window, endsAtMs - 1)).toBe(label(window, nowMs));
        expect(label(window, endsAtMs)).not.toBe(label(window, nowMs));
        expect(label(window, startsAtMs - 1)).not.toBe(label(window, nowMs));
      }),
      { numRuns, examples: [['month', (latestUnixMs - 400 * dayMs) as UnixMillis]] },
    );
  });

  it('follow each other without a gap, and each is one window for all its moments', () => {
    fc.assert(
      fc.property(name, time, (window, nowMs) => {
        const here = windowAt(window, nowMs);
        expect(windowAt(window, here.endsAtMs).startsAtMs).toBe(here.endsAtMs);
        expect(windowAt(window, (here.endsAtMs - 1) as UnixMillis)).toEqual(here);
        expect(windowAt(window, here.startsAtMs)).toEqual(here);
      }),
      { numRuns },
    );
  });

  it('last as long as the calendar says, leap years included', () => {
    fc.assert(
      fc.property(name, time, (window, nowMs) => {
        const here = windowAt(window, nowMs);
        expect(here.endsAtMs - here.startsAtMs).toBe(lengthMs(window, here.startsAtMs));
      }),
      {
        numRuns,
        examples: (['2000-02-10', '2028-02-29', '2100-02-10', '2400-02-10'] as const).map((day) => [
          'month',
          Date.parse(day) as UnixMillis,
        ]),
      },
    );
  });
});
