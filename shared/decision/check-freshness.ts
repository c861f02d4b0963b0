import type { DecisionReason } from '../model/decision.ts';
import type { PassportStanding } from './facts.ts';

/** Whether what is known of the passport is young enough to decide on. Exactly `ageMsMax` old still is. */
export const checkFreshness = (standing: PassportStanding, ageMsMax: number): DecisionReason | null =>
  standing.stateAgeMs > ageMsMax ? 'state_stale' : null;
