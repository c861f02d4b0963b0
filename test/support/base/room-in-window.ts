import { setTimeout as pause } from 'node:timers/promises';
import { assert } from '../../../shared/errors/assert.ts';
import { type WindowName, windowAt } from '../../../shared/quota/window.ts';
import { systemClock } from '../../../shared/runtime/clock.ts';

/**
 * Resolves when the calendar window that lasts now goes on for at least so long: at once, or when the next
 * one has begun. For tests of programs that run on the machine's clock, and of which a limit is expected to
 * hold from one end of the test to the other.
 */
export async function roomInWindow(name: WindowName, neededMs: number): Promise<void> {
  const nowMs = systemClock.now();
  const { startsAtMs, endsAtMs } = windowAt(name, nowMs);
  assert(neededMs < endsAtMs - startsAtMs, 'a whole window is long enough');
  if (endsAtMs - nowMs >= neededMs) return;
  await pause(endsAtMs - nowMs);
  // A timer may fire a millisecond before its time.
  return roomInWindow(name, neededMs);
}
