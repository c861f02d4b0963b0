import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { MonotonicMillis } from '../../../shared/model/time.ts';
import { RetryWaits } from '../../../shared/runtime/retry-waits.ts';

const bounds = {
  ...{ waitingMax: 8, waitingPerOwnerMax: 3, retriesPerSecondMax: 10 },
  ...{ pauseFirstMs: 30, pauseLastMs: 120 },
};
/** Chance always picks the longest pause. */
const random = { bytes: (count: number) => new Uint8Array(count).fill(255) } as never;
const monotonic = () => performance.now() as MonotonicMillis;

describe('requests that wait until they may ask again', () => {
  let waits: RetryWaits;
  let said: string[];
  const wait = (name: string, options: { owner?: string; waits?: number; forMs?: number } = {}) =>
    waits.wait(
      {
        owner: options.owner ?? 'one',
        waits: options.waits ?? 0,
        untilMs: (monotonic() + (options.forMs ?? 60_000)) as MonotonicMillis,
      },
      (outcome) => said.push(`${name} ${outcome}`),
    );
  beforeEach(() => {
    vi.useFakeTimers();
    waits = new RetryWaits({ clock: { monotonic }, random }, bounds);
    said = [];
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it('wait longer from one time to the next, up to the last pause', () => {
    for (const [count, pauseMs] of [30, 60, 120, 120].entries()) {
      wait('it', { waits: count });
      vi.advanceTimersByTime(pauseMs * 0.95);
      expect(said).toEqual([]);
      vi.advanceTimersByTime(pauseMs * 0.05 + 1);
      expect(said.splice(0)).toEqual(['it waited']);
    }
  });

  it('are told that their time is over when it is, and not before', () => {
    wait('it', { waits: 5, forMs: 50 });
    vi.advanceTimersByTime(49);
    expect(said).toEqual([]);
    vi.advanceTimersByTime(1);
    expect(said).toEqual(['it late']);
  });

  it('ask together no more often than the bound', () => {
    for (const name of ['a', 'b', 'c']) wait(name);
    vi.advanceTimersByTime(95);
    expect(said).toEqual(['a waited']);
    vi.advanceTimersByTime(105);
    expect(said).toEqual(['a waited', 'b waited', 'c waited']);
  });

  it('are turned away where too many wait, of one owner or of all, and find room again', () => {
    for (const name of ['a', 'b', 'c', 'd']) wait(name, { forMs: 1_000 });
    for (const name of ['e', 'f', 'g']) wait(name, { owner: 'other', forMs: 1_000 });
    vi.advanceTimersByTime(0);
    expect(said).toEqual(['d late']);
    // Two places are left: each owner may have one of them.
    for (const name of ['h', 'i']) wait(name, { owner: 'third', forMs: 1_000 });
    wait('j', { owner: 'fourth', forMs: 1_000 });
    vi.advanceTimersByTime(0);
    expect(said).toEqual(['d late', 'i late']);
    vi.advanceTimersByTime(1_000);
    said = [];
    wait('k');
    vi.advanceTimersByTime(30);
    expect(said).toEqual(['k waited']);
  });

  it('hear nothing after the stop', () => {
    wait('it');
    waits.stop();
    wait('later');
    vi.advanceTimersByTime(60_000);
    expect(said).toEqual([]);
  });
});
