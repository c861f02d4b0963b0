import { secondMs } from '../../shared/model/time.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import { replicaLimits } from './limits.ts';

/**
 * Limits pushes to `replicaLimits.pushesPerSecondMax` a second. Each costs a signature check on the thread
 * that decides, and anyone with write access to the bus could occupy that thread. The next pull brings the
 * entries of dropped pushes.
 */
export function pushBudget(clock: Pick<Clock, 'monotonic'>): () => boolean {
  let secondBeganAtMs = Number.NEGATIVE_INFINITY;
  let seen = 0;
  return () => {
    const nowMs = clock.monotonic();
    if (nowMs - secondBeganAtMs >= secondMs) {
      secondBeganAtMs = nowMs;
      seen = 0;
    }
    seen++;
    return seen <= replicaLimits.pushesPerSecondMax;
  };
}
