import type { DecisionReason } from '../model/decision.ts';
import type { PassportStanding } from './facts.ts';

/** Whether the known state of the passport is fresh enough. An age of exactly `ageMsMax` is. */
export const checkFreshness = (standing: PassportStanding, ageMsMax: number): DecisionReason | null =>
  standing.stateAgeMs > ageMsMax ? 'state_stale' : null;
