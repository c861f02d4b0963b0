import { beforeEach, describe, expect, it } from 'vitest';
import { limits } from '../../../../shared/model/limits.ts';
import type { MonotonicMillis } from '../../../../shared/model/time.ts';
import { Reach } from '../../../../sidecar/replica/reach.ts';

let nowMs: number;
let reach: Reach;
let ended: string[];

beforeEach(() => {
  nowMs = 0;
  ended = [];
  reach = new Reach({ monotonic: () => nowMs as MonotonicMillis });
  for (const name of ['pull', 'lease']) reach.onBack(() => ended.push(name));
});

describe('an answer of the control plane', () => {
  it('ends the pauses of all channels, once, after one of them had none', () => {
    reach.noteAnswer();
    expect(ended).toEqual([]);
    reach.noteAway({ sentAtMs: nowMs, canConnect: true });
    reach.noteAway({ sentAtMs: nowMs, canConnect: true });
    reach.noteAnswer();
    reach.noteAnswer();
    expect(ended).toEqual(['pull', 'lease']);
  });

  it('does not hurry a channel that keeps failing beside others that work', () => {
    const lengthMs = 10 * limits.leaseRetryLastMs;
    for (; nowMs < lengthMs; nowMs += 5) {
      reach.noteAway({ sentAtMs: nowMs, canConnect: true });
      reach.noteAnswer();
    }
    expect(ended.length / 2).toBe(10);
  });
});

describe('the control plane', () => {
  const broken = (sentAtMs: number) => ({ sentAtMs, canConnect: true });
  const failAt = (call: Parameters<Reach['noteAway']>[0], atMs: number) => {
    nowMs = atMs;
    reach.noteAway(call);
  };

  it('is away at once after a refused connection', () => {
    failAt({ sentAtMs: 0, canConnect: false }, 1);
    expect(reach.isAway).toBe(true);
  });

  it('is not away for any number of calls that broke together', () => {
    for (let call = 0; call < 10; call++) failAt(broken(call), 100 + call);
    expect(reach.isAway).toBe(false);
  });

  it.each([
    [99, false],
    [100, true],
    [101, true],
  ])(
    'is away when a call that began at %i failed too, after one that failed at 100: %s',
    (sentAtMs, isAway) => {
      failAt(broken(0), 100);
      failAt(broken(sentAtMs), 200);
      expect(reach.isAway).toBe(isAway);
    },
  );

  it.each([true, false])(
    'is not away by calls that were sent before its last answer, canConnect %s',
    (canConnect) => {
      nowMs = 100;
      reach.noteAnswer();
      failAt({ sentAtMs: 98, canConnect }, 101);
      failAt({ sentAtMs: 99, canConnect }, 102);
      expect(reach.isAway).toBe(false);
    },
  );

  it('is there again after any answer, and has to fail twice more', () => {
    failAt({ sentAtMs: 0, canConnect: false }, 1);
    reach.noteAnswer();
    expect(reach.isAway).toBe(false);
    failAt(broken(10), 20);
    expect(reach.isAway).toBe(false);
    failAt(broken(20), 30);
    expect(reach.isAway).toBe(true);
  });
});
