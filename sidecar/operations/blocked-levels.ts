import { stateAgeMsMaxOf } from '../../shared/decision/compile-gate.ts';
import type { TrustTier } from '../../shared/model/trust-tier.ts';

/**
 * How long gates of this trust level have blocked every request with `state_stale`, in ms; 0 while they
 * decide. `stateAgeMs` is Infinity if the state was never known to be current in this process, and so is the
 * result then. L1 never blocks for age (contract §4).
 */
export function blockedForMs(level: TrustTier, stateAgeMs: number): number {
  const ageMsMax = stateAgeMsMaxOf[level];
  return ageMsMax === null ? 0 : Math.max(0, stateAgeMs - ageMsMax);
}

export const trustLevels = Object.keys(stateAgeMsMaxOf) as readonly TrustTier[];
