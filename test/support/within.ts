import { expect } from 'vitest';
import { measureStall } from './machine-stall.ts';
import { until } from './until.ts';

/**
 * Waits until the condition holds, and answers after how many milliseconds it was last seen not to hold. How
 * long a look takes is not part of it, and neither is what a busy machine adds.
 */
export async function timeUntil(condition: () => boolean | Promise<boolean>, what: string): Promise<number> {
  const startedMs = performance.now();
  const stalledMs = measureStall();
  let notYetAfterMs = 0;
  const look = async (): Promise<boolean> => {
    const afterMs = performance.now() - startedMs;
    const holds = await condition();
    if (!holds) notYetAfterMs = afterMs;
    return holds;
  };
  await until(look, { what });
  return notYetAfterMs - stalledMs();
}

/** Fails where the condition was seen not to hold after a time that was promised. */
export async function within(
  limitMs: number,
  condition: () => boolean | Promise<boolean>,
  what: string,
): Promise<void> {
  expect(await timeUntil(condition, what), `milliseconds without ${what}`).toBeLessThan(limitMs);
}
