import { expect, it } from 'vitest';
import { type MonotonicMillis, secondMs } from '../../../../shared/model/time.ts';
import { pushBudget } from '../../../../sidecar/replica/feed-listener.ts';
import { replicaLimits } from '../../../../sidecar/replica/limits.ts';

it('so many pushes are looked at in a second, and as many in the next', () => {
  let nowMs = 5;
  const mayLook = pushBudget({ monotonic: () => nowMs as MonotonicMillis });
  const lookedAt = () =>
    Array.from({ length: replicaLimits.pushesPerSecondMax + 9 }, mayLook).filter(Boolean).length;
  expect(lookedAt()).toBe(replicaLimits.pushesPerSecondMax);
  nowMs += secondMs - 1;
  expect(lookedAt()).toBe(0);
  nowMs += 1;
  expect(lookedAt()).toBe(replicaLimits.pushesPerSecondMax);
});
