import { secondMs } from '../../shared/model/time.ts';

/** Bounds used only in this room, each with its reason. */
export const historyLimits = {
  /** Generations that a snapshot names: more than anybody recovers a database. */
  earlierGenerationsMax: 64,
  /** Chains of which a recovery says what has come back, and records that it counts in each. */
  handedInMax: 10_000,
  /** How late a replica learns what another has noticed. */
  lookIntervalMs: secondMs,
} as const;
