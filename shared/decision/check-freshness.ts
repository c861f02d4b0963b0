import type { DecisionReason } from '../model/decision.ts';
import type { PassportStanding } from './facts.ts';

/**
 * Whether the known state of the passport is fresh enough to decide on. An age of exactly `ageMsMax` still
 * is.
 */
export const checkFreshness = (standing: PassportStanding, ageMsMax: number): DecisionReason | null =>
  standing.stateAgeMs > ageMsMax ? 'state_stale' : null;
