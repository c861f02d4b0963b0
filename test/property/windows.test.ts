import fc from 'fast-check';
import { expect, it } from 'vitest';
import { dayMs, latestUnixMs, renderTime, type UnixMillis } from '../../shared/model/time.ts';
import { type CalendarWindowName, calendarWindowNames, windowAt } from '../../shared/quota/window.ts';
import { runs } from '../support/base/runs.ts';

/** The year before the last one is never reached by a test, so that the window after has a date too. */
const time = fc.integer({ min: 0, max: latestUnixMs - 400 * dayMs }).map((nowMs) => nowMs as UnixMillis);
const name = fc.constantFrom(...calendarWindowNames);
const numRuns = runs({ short: 500, long: 200_000 });

/** The same from the text of the date: how much of it the moments of one window have in common. */
const sharedChars: Readonly<Record<CalendarWindowName, number>> = { month: 7, day: 10, hour: 13, minute: 16 };
const label = (window: CalendarWindowName, timeMs: number) =>
  renderTime(timeMs as UnixMillis).slice(0, sharedChars[window]);

const oddMonths = ['2000-02-10', '2028-02-29', '2100-02-10', '2400-02-10'].map((day) => Date.parse(day));

it('calendar windows hold the moment that they are named for, from its first to its last millisecond', () => {
  fc.assert(
    fc.property(name, time, (window, nowMs) => {
      const { startsAtMs, endsAtMs } = windowAt(window, nowMs);
      expect(startsAtMs <= nowMs && nowMs < endsAtMs).toBe(true);
      expect(label(window, startsAtMs)).toBe(label(window, nowMs));
      expect(label(window, endsAtMs - 1)).toBe(label(window, nowMs));
      expect(label(window, endsAtMs)).not.toBe(label(window, nowMs));
      expect(label(window, startsAtMs - 1)).not.toBe(label(window, nowMs));
    }),
    {
      numRuns,
      examples: [latestUnixMs - 400 * dayMs, ...oddMonths].map((ms) => ['month', ms as UnixMillis]),
    },
  );
});
