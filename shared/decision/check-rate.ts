import { assert } from '../errors/assert.ts';
import { missedWindow } from './check-windows.ts';
import type { CompiledPolicy } from './compile-gate.ts';
import type { LimitMiss, QuotaView, VerifiedPassport } from './facts.ts';

/** Whether the gate or the passport limits the number of requests. */
export const hasRateLimit = (policy: CompiledPolicy, passport: VerifiedPassport): boolean =>
  policy.rateWindows.length > 0 || passport.rateWindows.length > 0;

/**
 * How one more request misses the rate limits. A request that needs an approval must have its unit available
 * too, but takes none (contract §5).
 */
export function missedRate(
  policy: CompiledPolicy,
  passport: VerifiedPassport,
  { rate }: QuotaView,
): LimitMiss | 'unknown' | null {
  assert(
    rate.length === policy.rateWindows.length + passport.rateWindows.length,
    'the view lists every limit on the number of requests',
  );
  return missedWindow(rate, 1, 'requests');
}
