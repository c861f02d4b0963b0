import type { AppendingDeps } from '../attestations/deps.ts';
import type { DecisionTurns } from '../storage/decision-turns.ts';
import type { OwnVoids } from './own-voids.ts';

export interface DecisionDeps extends AppendingDeps {
  /** Decisions of one account must not hold all connections while they wait for each other. */
  readonly turns: DecisionTurns;
  /** Decisions whose commit got no answer from the database. */
  readonly ownVoids: OwnVoids;
}
