import type { AccountId } from '../../shared/model/ids.ts';
import type { RetryWaits } from '../../shared/runtime/retry-waits.ts';
import type { AppendingDeps } from '../attestations/deps.ts';
import type { FairShare } from '../storage/fair-share.ts';
import type { CheckQueue } from './check-queue.ts';
import type { Enforcement, EnforcementCall } from './enforcement.ts';
import type { OwnVoids } from './own-voids.ts';

export interface DecisionDeps extends AppendingDeps {
  /**
   * Decisions of one account must not hold all connections while they wait for each other
   * (admission/decision-turns.ts).
   */
  readonly turns: FairShare<AccountId>;
  /** Where checks of this program wait for the next batch of their account. */
  readonly checks: CheckQueue<EnforcementCall, Enforcement | null>;
  /** Where requests wait for what others have begun; with `decisionsLimits.retries`. */
  readonly retryWaits: RetryWaits;
  /** Decisions whose commit got no answer from the database. */
  readonly ownVoids: OwnVoids;
}

export type DecidingDeps = Pick<
  DecisionDeps,
  'sql' | 'clock' | 'random' | 'signingKeys' | 'appending' | 'checks' | 'ownVoids' | 'retryWaits'
>;
