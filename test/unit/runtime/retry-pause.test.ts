import { describe, expect, it } from 'vitest';
import type { Random } from '../../../shared/runtime/random.ts';
import { retryPause } from '../../../shared/runtime/retry-pause.ts';

const chance = (byte: number) => ({ bytes: () => Uint8Array.of(byte) }) as unknown as Random;

describe('the pause between attempts', () => {
  it('doubles from the first to the last, and starts again after a success', () => {
    const pause = retryPause(chance(0), { firstMs: 50, lastMs: 300 });
    const wholes = () => Array.from({ length: 5 }, () => pause.nextMs() * 2);
    expect(wholes()).toEqual([50, 100, 200, 300, 300]);
    pause.reset();
    expect(pause.nextMs()).toBe(25);
  });

  it('lies between a half and the whole, by chance', () => {
    expect(retryPause(chance(0), { firstMs: 100, lastMs: 100 }).nextMs()).toBe(50);
    expect(retryPause(chance(128), { firstMs: 100, lastMs: 100 }).nextMs()).toBe(75);
    expect(retryPause(chance(255), { firstMs: 100, lastMs: 100 }).nextMs()).toBeLessThan(100);
  });
});
