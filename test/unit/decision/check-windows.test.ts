import { describe, expect, it } from 'vitest';
import { missedWindow } from '../../../shared/decision/check-windows.ts';
import type { UnixMillis } from '../../../shared/model/time.ts';
import { aWindow, nowMs } from './samples.ts';

const inAnHour = (nowMs + 3_600_000) as UnixMillis;
const spent = (given: object = {}) => aWindow({ available: 0, used: 100, isFinal: true, ...given });
const unasked = aWindow({ available: 0 });

describe('missedWindow', () => {
  it('is null where there is no window', () => {
    expect(missedWindow([], 1, 'requests')).toBeNull();
  });

  it.each([
    [9, null],
    [10, null],
    [11, 'unknown'],
  ])('takes what is to be had: %d of 10 is %s', (requested, missed) => {
    expect(missedWindow([aWindow(), aWindow({ available: 10 })], requested, 'requests')).toBe(missed);
  });

  it('is the numbers of the window, once the ledger was asked', () => {
    expect(missedWindow([aWindow(), spent({ available: 3, used: 97 })], 4, 'requests')).toEqual({
      unit: 'requests',
      limit: 100,
      used: 97,
      requested: 4,
      resetAtMs: nowMs + 60_000,
    });
  });

  it('is for ever for more than the whole limit, even without asking the ledger', () => {
    for (const window of [aWindow(), unasked, spent()]) {
      expect(missedWindow([window], 101, 'micro_usd')).toMatchObject({ requested: 101, resetAtMs: null });
      expect(missedWindow([window], 100, 'micro_usd')).not.toMatchObject({ resetAtMs: null });
    }
  });

  it('lets nothing pass a limit of 0', () => {
    const closed = aWindow({ limit: 0, available: 0, endsAtMs: null });
    expect(missedWindow([closed], 1, 'requests')).toMatchObject({ limit: 0, resetAtMs: null });
  });

  it('names the window that is closed the longest, in any order', () => {
    const day = spent({ endsAtMs: inAnHour });
    for (const windows of [
      [spent(), day],
      [day, spent()],
    ])
      expect(missedWindow(windows, 1, 'requests')).toMatchObject({ resetAtMs: inAnHour });
    const never = aWindow({ limit: 0, available: 0 });
    for (const windows of [
      [day, never],
      [never, day],
    ])
      expect(missedWindow(windows, 1, 'requests')).toMatchObject({ limit: 0, resetAtMs: null });
  });

  it('needs no units if one window is known to be missed', () => {
    for (const windows of [
      [unasked, spent()],
      [spent(), unasked],
    ])
      expect(missedWindow(windows, 1, 'requests')).toMatchObject({ used: 100 });
  });

  it('does not invent an end of a window', () => {
    expect(() => missedWindow([spent({ endsAtMs: null })], 1, 'requests')).toThrow('when a window ends');
  });
});
