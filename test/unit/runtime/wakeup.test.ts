import { describe, expect, it } from 'vitest';
import { makeWakeup } from '../../../shared/runtime/wakeup.ts';

const never = 60_000;

describe('a sleep that can be ended', () => {
  it('ends at once where it was woken before, once', async () => {
    const wakeup = makeWakeup();
    wakeup.wake();
    wakeup.wake();
    await wakeup.sleep(never);
    let isOver = false;
    const second = wakeup.sleep(never).then(() => {
      isOver = true;
    });
    await new Promise((resolve) => setImmediate(resolve));
    expect(isOver).toBe(false);
    wakeup.wake();
    await second;
  });

  it('ends when it is interrupted, and the next one is not shorter for it', async () => {
    const wakeup = makeWakeup();
    wakeup.interrupt();
    let isOver = false;
    const sleep = wakeup.sleep(never).then(() => {
      isOver = true;
    });
    await new Promise((resolve) => setImmediate(resolve));
    expect(isOver).toBe(false);
    wakeup.interrupt();
    await sleep;
  });

  it('ends by itself when the time is over, and at once where there is none', async () => {
    const wakeup = makeWakeup();
    const startedAtMs = performance.now();
    await wakeup.sleep(20);
    expect(performance.now() - startedAtMs).toBeGreaterThanOrEqual(18);
    await wakeup.sleep(-1);
  });
});
