import { secondMs } from '../../shared/model/time.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import { replicaLimits } from './limits.ts';

/**
 * Says for each push whether it may still be looked at: `replicaLimits.pushesPerSecondMax` in a second. Each
 * costs a signature check on the thread that decides, and whoever can write to the bus could fill that
 * thread. What is passed over is what a pull brings anyway.
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
