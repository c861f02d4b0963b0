import { assert } from '../errors/assert.ts';
import type { Random } from './random.ts';

/** Pauses between attempts: doubling from `firstMs` to `lastMs`, each randomly shortened by up to half. */
export interface RetryPause {
  /** After another failure. */
  nextMs(): number;
  /** After a success: the next failure starts from `firstMs` again. */
  reset(): void;
}

/** Jitter keeps programs that failed together from retrying together. */
export function retryPause(
  random: Random,
  options: { readonly firstMs: number; readonly lastMs: number },
): RetryPause {
  assert(options.firstMs > 0 && options.firstMs <= options.lastMs, 'pauses grow from first to last');
  let wholeMs = options.firstMs;
  return {
    nextMs: () => {
      const pauseMs = wholeMs * (0.5 + (random.bytes(1)[0] ?? 0) / 512);
      wholeMs = Math.min(wholeMs * 2, options.lastMs);
      return pauseMs;
    },
    reset: () => {
      wholeMs = options.firstMs;
    },
  };
}
