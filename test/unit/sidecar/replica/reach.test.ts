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
    reach.noteAway();
    reach.noteAway();
    reach.noteAnswer();
    reach.noteAnswer();
    expect(ended).toEqual(['pull', 'lease']);
  });

  it('does not hurry a channel that keeps failing beside others that work', () => {
    const lengthMs = 10 * limits.quotaWaitMsMax;
    for (; nowMs < lengthMs; nowMs += 5) {
      reach.noteAway();
      reach.noteAnswer();
    }
    expect(ended.length / 2).toBe(10);
  });
});
