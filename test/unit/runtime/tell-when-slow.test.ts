import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { tellWhenSlow } from '../../../shared/runtime/tell-when-slow.ts';

describe('a step of a start', () => {
  beforeEach(() => vi.useFakeTimers());
  afterEach(() => vi.useRealTimers());

  const slowStep = () => {
    const told: number[] = [];
    let resolve: (value: string) => void = () => undefined;
    let reject: (error: Error) => void = () => undefined;
    const work = new Promise<string>((...ends) => {
      [resolve, reject] = ends;
    });
    const step = tellWhenSlow(work, (seconds) => told.push(seconds));
    return { told, step, resolve, reject };
  };

  it('is told of after 5 s, and every 30 s from then on, until it ends', async () => {
    const { told, step, resolve } = slowStep();
    await vi.advanceTimersByTimeAsync(4_999);
    expect(told).toEqual([]);
    await vi.advanceTimersByTimeAsync(60_001);
    expect(told).toEqual([5, 35, 65]);
    resolve('done');
    expect(await step).toBe('done');
    await vi.advanceTimersByTimeAsync(100_000);
    expect(told).toHaveLength(3);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('that fails early is told of by its failure alone', async () => {
    const { told, step, reject } = slowStep();
    reject(new Error('refused'));
    await expect(step).rejects.toThrow('refused');
    expect(vi.getTimerCount()).toBe(0);
    expect(told).toEqual([]);
  });
});
