import { expect, it } from 'vitest';
import { type MonotonicMillis, minuteMs } from '../../../../shared/model/time.ts';
import { DurationHistogram } from '../../../../shared/runtime/duration-histogram.ts';
import { parseDecisionTimes, renderDecisionTimes } from '../../../../shared/wire/sync/decision-times.ts';
import { decisionTimesOfMinute } from '../../../../sidecar/operations/decision-times.ts';

it('reads the times of the last whole minute, as bounds that so many decisions kept', () => {
  let nowMs = 0;
  const durations = new DurationHistogram([0.05, 0.1, 1, 10]);
  durations.observe(10);
  const times = decisionTimesOfMinute(durations, { monotonic: () => nowMs as MonotonicMillis });
  for (let n = 0; n < 98; n++) durations.observe(n < 50 ? 0.02 : 0.07);
  durations.observe(0.5);
  durations.observe(0.5);
  nowMs += minuteMs - 1;
  expect(times()).toBeNull();
  nowMs += 1;
  // What came before the minute does not count, and what comes after it does not yet.
  expect(times()).toEqual({ decisions: 100, p50Ms: 0.05, p99Ms: 1 });
  durations.observe(99);
  expect(times()).toEqual({ decisions: 100, p50Ms: 0.05, p99Ms: 1 });
  nowMs += minuteMs;
  expect(times()).toEqual({ decisions: 1, p50Ms: 10, p99Ms: 10 });
  nowMs += 5 * minuteMs;
  expect(times()).toEqual({ decisions: 0, p50Ms: null, p99Ms: null });
});

it('sends them in a header, and reads nothing else', () => {
  for (const times of [
    { decisions: 60_213, p50Ms: 0.025, p99Ms: 2_500 },
    { decisions: 0, p50Ms: null, p99Ms: null },
  ])
    expect(parseDecisionTimes(renderDecisionTimes(times))).toEqual(times);
  for (const text of [
    ...['', '1 2', '1 2 3 4', '-1 2 3', '1e9 2 3', '1 2 NaN'],
    `1 2 ${'9'.repeat(9)}`,
    ['1 2 3'],
  ])
    expect(parseDecisionTimes(text)).toBeNull();
  expect(parseDecisionTimes(undefined)).toBeNull();
});
